"""Fetching known data sets: addresses, archives, checksums."""
