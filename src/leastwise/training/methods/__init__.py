"""Training methods: one file each, whose docstring is its equation."""
