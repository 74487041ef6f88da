"""The names that an attack may define: a misspelt one would be a hook that nobody calls."""

from difflib import get_close_matches
from inspect import get_annotations


def check_hooks(cls: type, contract: bool) -> None:
    """Refuse a class that overrides what is final, or that defines a name which nobody calls."""
    bases = cls.__mro__[1:]
    inherited = {name for base in bases for name in (*vars(base), *get_annotations(base)) if not name.startswith("_")}
    declared = get_annotations(cls)
    fields = {name for name, kind in declared.items() if "ClassVar" not in str(kind)}
    for name in dict.fromkeys((*vars(cls), *declared)):
        if name in FINAL:
            raise TypeError(f"{cls.__name__}.{name} is the same for all attacks: {FINAL[name]}")
        if contract or name.startswith("_") or name.isupper() or name in inherited | fields:
            continue
        nearest = get_close_matches(name, sorted(inherited), n=1, cutoff=0)[0]
        raise TypeError(
            f"{cls.__name__}.{name} is no hook of an attack: did you mean {nearest}? "
            "Helpers start with an underscore, or are functions beside the class"
        )


FINAL = {
    "__call__": "write run instead",
    "at": "write with_radius instead",
    "allows": "write is_within_threat instead",
}
