"""Tests mirror the tree of the package. Importing them makes the checks of shapes sparing before anything is run."""

from tests import shape_checks

__all__ = ["shape_checks"]
