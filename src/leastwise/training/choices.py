"""Choices that a recipe names by a word. Nothing here imports torch, so that the command line can show them at once."""

from typing import Literal

SelectionRule = Literal["sum", "average", "worst", "last"]  # how the best epoch is chosen
CalibrationRule = Literal["worst", "sum"]  # what logit offsets are to raise
CraftMode = Literal["eval", "train"]  # the mode of BatchNorm while an attack looks at the network
Precision = Literal["full", "bfloat16"]
AveragingInterval = Literal["epoch", "step"]  # after which an average of the weights may move
