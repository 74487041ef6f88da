"""What a page carries and shows, taken out of its HTML."""

import base64
import gzip
import json
import re
from typing import Any


def unpacked(html: str, name: str) -> str:
    found = re.search(rf'<script type="text/plain" id="{name}">([^<]*)</script>', html)
    assert found is not None
    return gzip.decompress(base64.b64decode(found[1])).decode()


def visible(html: str) -> str:
    """The text of the page, with single spaces."""
    body = re.sub(r"<(script|style)[^>]*>.*?</\1>", " ", html, flags=re.S)
    text = re.sub(r"<[^>]*>", "", body).replace("&nbsp;", " ").replace("&lt;", "<").replace("&gt;", ">")
    return re.sub(r"\s+", " ", text)


def specifications(html: str) -> list[dict[str, Any]]:
    """The charts of the page as a browser draws them: each with the data sets that it names."""
    content = json.loads(unpacked(html, "payload"))
    named = [set(re.findall(r'"name": "(data-[0-9a-f]+)"', json.dumps(spec))) for spec in content["specs"]]
    return [
        {**spec, "datasets": {name: content["datasets"][name] for name in names}}
        for spec, names in zip(content["specs"], named, strict=True)
    ]
