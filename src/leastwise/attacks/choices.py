"""Choices that an attack names by a word. Nothing here imports torch: the command line shows them at once."""

from typing import Literal

Keep = Literal["fooled", "last"]  # let examples leave at their first misclassified point; or run to the end
Norm = Literal["linf", "l2", "l1"]  # how far an attack goes is measured in it
Aim = Literal["dlr", "difference"]  # what a run toward a class climbs: the targeted DLR; or z_t - z_y
TargetOrder = Literal["logits", "distance"]  # which classes come first: the likeliest; or those of the nearest boundary
