"""Class-wise policies: one file each, whose docstring is its rule."""
