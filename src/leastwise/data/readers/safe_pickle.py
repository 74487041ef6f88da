"""Reader of pickled dictionaries of arrays that cannot run code.

A pickle names the functions it wants called. This reader knows the three that rebuild a numpy array and the one
that Python 3 uses for bytes, and refuses every other name before anything is called.
"""

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from leastwise.core.pickles import check_pickle

# numpy moved this function in 2.0; both spellings occur in files.
RECONSTRUCT = np.ndarray.__reduce__(np.empty(0))[0]
ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): RECONSTRUCT,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): lambda text, encoding: text.encode(encoding),
}


class PlainUnpickler(pickle.Unpickler):
    """An unpickler that builds arrays and refuses to name any other code."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is code")
        return ALLOWED[module, name]


def read_plain_pickle(path: Path) -> dict[str, Any]:
    """The dictionary in a pickle of numbers, strings, lists and arrays; keys as text."""
    try:
        with path.open("rb") as file:
            check_pickle(file)
            file.seek(0)
            content = PlainUnpickler(file, encoding="bytes").load()
    except FileNotFoundError:
        raise
    except Exception as error:  # a damaged pickle can fail in any way
        raise ValueError(
            f"{path} is not a plain pickle of arrays ({error}): nothing in it was run; fetch the official file"
        ) from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold a dictionary, but holds {type(content).__name__}")
    return {key.decode("latin-1") if isinstance(key, bytes) else str(key): value for key, value in content.items()}
