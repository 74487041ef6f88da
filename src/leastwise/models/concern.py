"""What a check before an audit finds doubtful."""

from typing import NamedTuple


class Concern(NamedTuple):
    """Something doubtful, and whether the user may go on all the same."""

    text: str
    serious: bool  # refused unless forced
