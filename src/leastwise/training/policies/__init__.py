"""Class-wise policies: one file each, whose docstring is its rule and whose end is its entry in the registry."""
