"""Pass, fail or inconclusive: the language of demands, what they measure, and the verdict."""
