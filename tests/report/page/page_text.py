"""What a page carries and shows, taken out of its HTML."""

import base64
import gzip
import re


def unpacked(html: str, name: str) -> str:
    found = re.search(rf'<script type="text/plain" id="{name}">([^<]*)</script>', html)
    assert found is not None
    return gzip.decompress(base64.b64decode(found[1])).decode()


def visible(html: str) -> str:
    """The text of the page, with single spaces."""
    body = re.sub(r"<(script|style)[^>]*>.*?</\1>", " ", html, flags=re.S)
    text = re.sub(r"<[^>]*>", "", body).replace("&nbsp;", " ").replace("&lt;", "<").replace("&gt;", ">")
    return re.sub(r"\s+", " ", text)
