"""Programs written by `torch.export.save` (`.pt2`). Reading one may unpickle, so it needs the user's trust."""

from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from leastwise.core.files import sha256
from leastwise.core.text import error_with_type
from leastwise.core.types import Shape
from leastwise.models.exported import Exported
from leastwise.models.foreign import ForeignNetwork, check_outputs, check_stated_input, silence_libraries


def load_exported(path: Path, shape: Shape | None, k: int | None, *, trust: bool) -> ForeignNetwork:
    """The exported program in a file, if the user trusts it, with its input compared with the data."""
    if not trust:
        raise ValueError(f"loading {path} can run code that is inside it: add --trust if you trust where it comes from")
    try:
        with silence_libraries():
            program = torch.export.load(path)
    except Exception as error:
        raise ValueError(
            f"{path} is not an exported program ({error_with_type(error)}): write it with torch.export.save"
        ) from None
    outputs = check_program(path, program, shape, k=k)
    return ForeignNetwork(Exported(program.module(), sha256(path.read_bytes())), outputs=outputs)


def check_program(path: Path, program: ExportedProgram, shape: Shape | None, *, k: int | None) -> int | None:
    """The number of outputs, if it is said; refuses a program for other images or another number of classes."""
    sizes: dict[str, Any] = {n.name: getattr(n.meta.get("val"), "shape", None) for n in program.graph.nodes}
    inputs, outputs = program.graph_signature.user_inputs, program.graph_signature.user_outputs
    if len(inputs) != 1 or sizes.get(str(inputs[0])) is None:
        raise ValueError(f"{path} takes {len(inputs)} inputs, but a classifier takes one batch of images: export it so")
    takes = sizes[str(inputs[0])]
    if shape is not None:
        check_stated_input(path, takes, shape)
    if isinstance(takes[0], int):
        raise ValueError(
            f"{path} was exported for batches of exactly {takes[0]}, but attacks need any number: export it with "
            "torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim('b')},)), x holding several images"
        )
    gives = sizes.get(str(outputs[0])) if len(outputs) == 1 else None
    outputs = gives[1] if gives is not None and len(gives) == 2 and isinstance(gives[1], int) else None
    if outputs is not None and k is not None:
        check_outputs(path, outputs, k)
    return outputs
