"""A function from images to logits, or to class numbers alone, that can be asked but not differentiated."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from leastwise.core.types import Images, Logits

QUERIES_ONLY = "it can be asked but gives no gradients, so only query attacks can be run against it"
# What a class number counts as: a logit so large that float32 has no probability for another class.
SURE = 200.0


class BlackBox(nn.Module):
    """Ask `function` for logits: it gets a float tensor on the CPU and returns a tensor, an array or nested lists.

    Whole numbers, one for each image, are the classes that it names. The function gets a copy, so it may write into
    its argument, and its answer carries no gradient. `content` is a hash of all that determines the answers, where
    that is known; else the digest looks at the function.
    """

    def __init__(self, function: Callable[..., Any], content: str = "") -> None:
        super().__init__()
        self.function = function
        self.content = content

    def forward(self, x: Images) -> Any:
        with torch.no_grad():
            answer = self.function(x.detach().cpu().clone())
        try:
            z = answer if isinstance(answer, Tensor) else torch.as_tensor(answer)
        except (TypeError, ValueError, RuntimeError):
            return answer  # not numbers; whoever asked says what was wrong with it
        if names_classes(z):
            return z.detach().to(x.device)
        return z.detach().to(device=x.device, dtype=x.dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> "BlackBox":
        """Sessions and connections cannot be copied, and asking does not change them: a copy asks the same one."""
        return BlackBox(self.function, self.content)


def names_classes(z: object) -> bool:
    """Whether an answer is a class number for each image, and not logits."""
    return isinstance(z, Tensor) and z.dim() == 1 and not z.is_floating_point() and not z.is_complex()


def logits_from_classes(named: Tensor, k: int, x: Images) -> Logits:
    """The logits of a model that is sure of the classes that it names."""
    if len(named) != len(x):
        raise ValueError(f"the model must name a class for each image, but named {len(named)} for {len(x)} images")
    if not k:
        raise ValueError("the model names classes, and how many there are is not known yet: use it with data")
    low, high = int(named.min()), int(named.max())
    if low < 0 or high >= k:
        raise ValueError(f"the model names classes {low} to {high}, but of {k} classes the numbers are 0 to {k - 1}")
    return SURE * nn.functional.one_hot(named.long(), k).to(x)
