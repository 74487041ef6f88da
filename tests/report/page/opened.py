"""Pages opened in a real Chromium."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def refuse(reason: str) -> None:
    """Skip with the reason, unless this machine is meant to have a browser."""
    if os.environ.get("LEASTWISE_NEEDS_BROWSER") == "1":
        pytest.fail(f"{reason}, but LEASTWISE_NEEDS_BROWSER=1 demands it")
    pytest.skip(reason)


class Opened:
    """A tab with a page in it, and everything it complained about or asked for."""

    def __init__(self, browser: Any, file: Path, width: int = 1440, theme: str = "light") -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
        self.tab = self.context.new_page()
        self.tab.on("console", lambda message: self.complaints.append(message.text))
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        self.tab.on("request", lambda request: self.requests.append(request.url))
        self.tab.goto(file.as_uri())
        self.tab.wait_for_selector("html[data-drawn]", state="attached")

    def column(self, number: int, table: str = "t1") -> list[str]:
        """The visible cells of a column."""
        cells: list[str] = self.tab.eval_on_selector_all(
            f"#{table} tbody tr:not([hidden]):not(.gap)",
            f"rows => rows.map(row => row.cells[{number}].textContent.trim())",
        )
        return cells
