"""Screenshots of the page, light and dark, narrow and wide, at 10, 100 and 1,000 classes.

    python -m scripts.screenshots FOLDER

Needs playwright (in the extra `test`) and a Chromium on the path or in $CHROMIUM.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Literal

from playwright.sync_api import sync_playwright
from tests.report.evidence_made_up import audited

from leastwise.report.page.page import make_page

CLASSES = (10, 100, 1000)
WIDTHS = {"narrow": 390, "wide": 1440}
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for k in CLASSES:
            file = Path(scratch) / f"{k}.html"
            file.write_text(make_page(audited(k)), encoding="utf-8")
            for theme in THEMES:
                for width_name, width in WIDTHS.items():
                    tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
                    tab.goto(file.as_uri())
                    tab.wait_for_selector("html[data-drawn]", state="attached")
                    target = folder / f"{k}-{theme}-{width_name}.png"
                    tab.screenshot(path=target, full_page=True)
                    tab.close()
                    print(target)
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]))
