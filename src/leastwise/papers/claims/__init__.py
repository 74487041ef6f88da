"""What the papers claim, as tests that any evidence can be put to."""
