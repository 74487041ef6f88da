"""Architectures: one file per family."""
