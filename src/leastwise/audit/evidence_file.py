"""Evidence on disk: one safetensors file (arrays and one JSON text, nothing that can run), packed or not.

A digest over everything inside is checked on loading.
"""

import json
import lzma
from dataclasses import fields
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays

from leastwise.audit.evidence import SCHEMA, Evidence, digest_content, require
from leastwise.audit.record import Record
from leastwise.core.files import write_atomic
from leastwise.core.text import escape_unprintable

EVIDENCE_FILE = "evidence.safetensors"
PACKED_FILE = f"{EVIDENCE_FILE}.xz"  # the same, a third of the size: 0.2 MB for 10,000 images under one condition
LARGEST = 1 << 32  # bytes that a packed file may have inside


def load_evidence(path: Path) -> Evidence:
    """Read and check: a damaged or edited file is refused, and nothing in it is executed."""
    if path.is_dir():
        path = locate_evidence(path)
    if not path.is_file() or path.suffix == ".json":
        raise ValueError(f"there is no evidence at {path}: give the folder that `leastwise audit` wrote")
    return parse_evidence(unpack_file(path) if path.suffix == ".xz" else path.read_bytes(), path)


def locate_evidence(folder: Path) -> Path:
    """The evidence of a folder, packed or not."""
    return folder / (
        PACKED_FILE if (folder / PACKED_FILE).is_file() and not (folder / EVIDENCE_FILE).is_file() else EVIDENCE_FILE
    )


def pack_evidence(folder: Path) -> None:
    """Make a folder's evidence smaller without changing it; it is read as before."""
    write_atomic(folder / PACKED_FILE, lzma.compress((folder / EVIDENCE_FILE).read_bytes()))
    (folder / EVIDENCE_FILE).unlink()


def unpack_file(path: Path) -> bytes:
    """The content of a packed file, unless it is damaged or there to fill the memory."""
    reader = lzma.LZMADecompressor()
    try:
        content = reader.decompress(path.read_bytes(), max_length=LARGEST)
    except (lzma.LZMAError, EOFError):
        content = b""
    if not reader.eof:
        raise ValueError(f"{path} is damaged or was edited (it cannot be unpacked): audit again with --fresh")
    return content


def parse_evidence(content: bytes, path: Path) -> Evidence:
    """Evidence from the bytes of a file, checked."""
    try:
        arrays = load_arrays(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        about = json.loads(header["__metadata__"]["leastwise"])
        require(about["schema"] == SCHEMA, f"schema {about['schema']} is not {SCHEMA}")
        stated = about.pop("digest")
        require(stated == digest_content(arrays, about), "its digest does not match its content")
        conditions = {}
        for name, counts in about["conditions"].items():
            columns: dict[str, Any] = {
                f.name: arrays[f"{name}.{f.name}"] for f in fields(Record) if f.name not in counts
            }
            conditions[name] = Record(**columns, **counts)
        groups = tuple((escape_unprintable(str(name)), tuple(classes)) for name, classes in about["groups"])
        names, warnings = (
            tuple(escape_unprintable(str(text)) for text in about[part]) for part in ("names", "warnings")
        )
        evidence = Evidence(arrays["ids"], arrays["labels"], names, conditions, about["recipe"], groups, warnings)
    except (SafetensorError, KeyError, TypeError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(
            f"{path} is not evidence ({type(error).__name__} while reading): audit again with --fresh"
        ) from None
    except ValueError as error:
        raise ValueError(f"{path} is damaged or was edited ({error}): audit again with --fresh") from None
    evidence.verify()
    return evidence
