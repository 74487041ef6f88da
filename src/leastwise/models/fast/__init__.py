"""The fastest equivalent form of a network."""
