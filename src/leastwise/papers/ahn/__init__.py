"""Ahn et al.: exhibits, drawings, verdicts, printed numbers."""
