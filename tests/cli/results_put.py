"""Results as audits leave them, and the command line on them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from leastwise.audit.evidence import EVIDENCE_FILE, Evidence
from leastwise.cli.main import main
from leastwise.core.files import write_json
from leastwise.report.summary import summarise


def put(folder: Path, found: Evidence, **facts: str) -> str:
    found.save(folder / EVIDENCE_FILE)
    write_json(folder / "summary.json", summarise(found, facts))
    write_json(folder / "run.json", facts)
    return str(folder)


def lost(found: Evidence, rows: "np.ndarray") -> Evidence:
    """The same model, wrong on some more images under every condition."""
    wrong = ((found.labels + 1) % 10).astype(np.int32)
    conditions = {
        name: replace(
            r,
            predicted=np.where(rows, wrong, r.predicted).astype(np.int32),
            margin=np.where(rows, -1.0, r.margin).astype(np.float32),
        )
        for name, r in found.conditions.items()
    }
    return replace(found, conditions=conditions, recipe=found.recipe.replace('"model":"', '"model":"less '))


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    said = capsys.readouterr()
    return code, said.out, said.err
