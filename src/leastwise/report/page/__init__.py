"""The page of one or several audits."""
