"""Tian et al. 2021: exhibits, drawings, verdicts, printed numbers."""
