"""Charts as specifications: bars, lines, heatmaps."""
