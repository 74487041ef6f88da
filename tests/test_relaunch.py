"""The outer relaunch of trainings: it starts again what fails, and knows when to stop."""

import sys
from pathlib import Path

import pytest
from scripts.relaunch import relaunched

COUNT = (
    "import sys; from pathlib import Path; p = Path(sys.argv[1]); n = len(p.read_text()); p.write_text('x' * (n + 1));"
)


@pytest.mark.parametrize(
    ("body", "code", "starts"),
    [
        ("sys.exit(0 if n == 2 else 1)", 0, 3),  # the third start succeeds
        ("sys.exit(2)", 2, 1),  # bad input
        ("sys.exit(130)", 130, 1),
        ("sys.exit(1)", 1, 3),  # it fails at once, again and again
        ("import os; os.kill(os.getpid(), 9) if n < 1 else sys.exit(0)", 0, 2),
    ],
)
def test_a_command_is_started_again_until_it_is_done(body: str, code: int, starts: int, tmp_path: Path) -> None:
    seen = tmp_path / "starts"
    seen.touch()
    assert relaunched(5, [sys.executable, "-c", f"{COUNT} {body}", str(seen)], pause=0.0) == code
    assert len(seen.read_text()) == starts
