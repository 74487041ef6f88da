"""Numbers that stand in records for what happened to an example; readers of evidence need them without torch."""

NEVER = -1  # the step of an example that was not fooled
GRID = "Grid"  # the recipe_name of an attack whose members are reported one by one
# Troubles: nothing; an input gradient that was zero; numbers that were not finite; a point that fooled the model during
# the attack, but not when it was asked again.
FINE, FLAT, BROKEN, UNCONFIRMED = 0, 1, 2, 3
