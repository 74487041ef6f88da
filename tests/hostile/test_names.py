"""Names from strangers in everything that people open: the page, tables, the screen."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from leastwise.cli.main import main
from leastwise.data.loading import load
from tests.hostile.files import checkpoint

EVIL = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</script><svg onload=alert(1)>",
    "{{7*7}}${7*7}",
    "\\input{/etc/passwd}",
    "=cmd|'/C calc'!A0",
    "[red]x[/red]",
    "a\x1b[2Jb",
    "line\nbreak",
    "javascript:alert(1)",
)


@pytest.mark.medium
def test_names_that_are_code_are_shown_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.savez(
        "set.npz", images=rng.integers(0, 256, (20, 1, 28, 28), dtype=np.uint8), labels=np.arange(20) % 10, names=EVIL
    )
    names = load("./set.npz").names
    assert names[7:9] == (r"a\x1b[2Jb", r"line\nbreak")
    checkpoint(tmp_path, names=names)
    assert main(["audit", "model.pt", "--data", "./set.npz", "--attack", "clean,fgsm", "--force", "--out", "o"]) == 0
    said = capsys.readouterr().out
    assert "\x1b[2J" not in said and "[red]x[/red]" in said  # neither the terminal nor rich obeys
    for name in ("page.html", "t.md", "t.tex", "t.csv"):
        assert main(["report", "o", "--out", name]) == 0
    page = (tmp_path / "page.html").read_text()
    for tag in ("<script>alert", "<img src=x", "<svg onload", "49$"):
        assert tag not in page
    assert "\\input{" not in (tmp_path / "t.tex").read_text()
    cells = (tmp_path / "t.csv").read_text()
    assert "\n=cmd" not in cells and ",=cmd" not in cells


def test_sixteen_bits_and_cmyk_are_read_as_they_look(tmp_path: Path) -> None:
    for part in ("a", "b"):
        (tmp_path / part).mkdir()
    Image.fromarray(np.full((4, 4), 257 * 200, np.uint16)).save(tmp_path / "a" / "deep.png")
    Image.new("CMYK", (4, 4), (0, 255, 255, 0)).save(tmp_path / "b" / "print.jpg")
    data = load(str(tmp_path))
    deep, printed = data.images[np.array([0, 1])]
    assert (deep == 200).all()
    assert printed[0].min() > 240 and printed[1:].max() < 15  # red
