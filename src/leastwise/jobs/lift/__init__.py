"""Making the worst class of a trained network better: what is tried, how it is measured, and what is chosen.

Candidates come from `training/edits/` and `training/methods/` with their policies; whether one is better is decided by
`statistics/lift.py`. Every candidate and every measurement has a folder, so that an interrupted search goes on.
"""
