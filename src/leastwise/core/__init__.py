"""What every other package stands on: shapes, noise, losses, counts, recipes and their keys, files, and text.

Nothing here knows a data set, a network or an attack; nothing here imports another package of leastwise.
"""

from typing import TYPE_CHECKING

from leastwise.core.lazy import lazy_names

if TYPE_CHECKING:
    from leastwise.core.counts import ClassFrame, Tally
    from leastwise.core.noise import Noise
    from leastwise.core.recipe import recipe_key, to_plain_json

__all__ = ["ClassFrame", "Noise", "Tally", "recipe_key", "to_plain_json"]

__getattr__ = lazy_names(
    __name__,
    {
        "noise": "Noise",
        "counts": "Tally ClassFrame",
        "recipe": "recipe_key to_plain_json",
    },
)
