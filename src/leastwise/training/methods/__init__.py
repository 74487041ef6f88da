"""Training methods: one file each, whose docstring is its equation and whose end is its entry in the registry."""
