"""Shape words used in every signature.

`b` is the batch, `k` the classes, `c h w` an image. jaxtyping writes the shape beside the type;
beartype verifies it in the test run and costs nothing in production.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor

Images = Float[Tensor, "b c h w"]  # pixels in [0, 1]
Labels = Int[Tensor, " b"]
Logits = Float[Tensor, "b k"]
PerExample = Float[Tensor, " b"]
PerClass = Float[Tensor, " k"]
Counts = Int[Tensor, " k"]
Mask = Bool[Tensor, " b"]
Rows = Int[Tensor, " n"]  # positions in a batch
Shape = tuple[int, int, int]  # channels, height, width of an image
