"""A function from images to logits that can be asked but not differentiated."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from leastwise.core.types import Images

QUERIES_ONLY = "it can be asked but gives no gradients, so only query attacks can be run against it"


class BlackBox(nn.Module):
    """Ask `function` for logits: it gets a float tensor on the CPU and returns a tensor, an array or nested lists.

    The function gets a copy, so it may write into its argument, and its answer carries no gradient.
    `content` is a hash of all that determines the answers, where that is known; else the digest looks at the function.
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
        return z.detach().to(device=x.device, dtype=x.dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> "BlackBox":
        """Sessions and connections cannot be copied, and asking does not change them: a copy asks the same one."""
        return BlackBox(self.function, self.content)
