"""Architectures: one file per family, and `registry` with their names.

The digest of a network holds the class names of its layers, and stored results are found by it: classes of layers keep
their names.
"""
