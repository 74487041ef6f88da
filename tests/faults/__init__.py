"""What goes wrong on many machines and in hostile surroundings. `make test-faults` runs all of it."""
