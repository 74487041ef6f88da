"""Searches for the nearest mistake rather than for any mistake in a ball: C&W, DDN, FMN."""
