"""Common corruptions of images, by name and severity, as the published files have them.

`registry` has the value and the table of all; the other files have the functions, by family. Attacking with them is
`leastwise.attacks.corruptions`.
"""

from typing import TYPE_CHECKING

from leastwise.core.lazy import lazy_names

if TYPE_CHECKING:
    from leastwise.data.corrupt.registry import CORRUPTIONS, Corruption

__all__ = ["CORRUPTIONS", "Corruption"]

__getattr__ = lazy_names(__name__, {"registry": "CORRUPTIONS Corruption"})
