"""What is shown in a terminal: progress, tables."""
