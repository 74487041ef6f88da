"""One file per format that data sets come in."""
