"""ONNX files, run by onnxruntime on the CPU: a black box."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from leastwise.core.files import sha256
from leastwise.core.text import error_with_type
from leastwise.core.types import Images, Shape
from leastwise.models.blackbox import QUERIES_ONLY, BlackBox
from leastwise.models.foreign import ForeignNetwork, check_outputs, check_stated_input, import_optional

NUMBERS = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}

LONGEST = 300.0  # seconds for one batch


@dataclass(frozen=True)
class Session:
    """Images to logits. A graph with a fixed batch gets blocks of that size, the last filled up with copies."""

    session: Any
    options: Callable[[], Any]  # of one question
    input: str
    output: str
    number: type
    batch: int | None

    def __call__(self, x: Images) -> "np.ndarray":
        pixels: np.ndarray = x.numpy().astype(self.number)
        if self.batch is None:
            return self.ask(pixels)
        blocks = [pixels[i : i + self.batch] for i in range(0, len(pixels), self.batch)]
        whole = [np.concatenate([b, np.repeat(b[-1:], self.batch - len(b), axis=0)]) for b in blocks]
        return np.concatenate([self.ask(block) for block in whole])[: len(pixels)]

    def ask(self, pixels: "np.ndarray") -> "np.ndarray":
        """The answer, or a sentence if it takes too long: a graph may hold a loop that never ends.

        Another thread asks, so that this one hears of the time and of Ctrl-C; the runtime stops when it is told to.
        """
        told = self.options()
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(self.session.run, [self.output], {self.input: pixels}, told)
            try:
                (answer,) = running.result(timeout=LONGEST)
            except TimeoutError:
                told.terminate = True
                raise ValueError(
                    f"the ONNX model gave no answer for {len(pixels)} images within {LONGEST:g} seconds: "
                    "take a smaller --batch-size, or check the model"
                ) from None
            except BaseException:
                told.terminate = True
                raise
        return answer


def load_onnx(path: Path, shape: Shape | None, k: int | None) -> ForeignNetwork:
    """The ONNX file as a black box, its input and output compared with the data."""
    runtime = import_optional("onnxruntime", "onnx", f"the ONNX file {path}")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 4  # what goes wrong is raised; the log would say it a second time
    try:
        session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors share no other base
        raise ValueError(
            f"{path} cannot be read as an ONNX model ({error_with_type(error)}): check the file, or export it anew"
        ) from None
    inputs = session.get_inputs()
    if len(inputs) != 1 or inputs[0].type not in NUMBERS:
        seen = ", ".join(f"{i.name} {i.type}" for i in inputs)
        raise ValueError(f"{path} must take one batch of float images, but takes {seen}: export it so")
    if shape is not None:
        check_stated_input(path, inputs[0].shape, shape)
    output = find_logits(path, session.get_outputs(), k)
    count = output.shape[1] if isinstance(output.shape[1], int) else k
    first = inputs[0].shape[0]
    batch = first if isinstance(first, int) else None
    notes = [f"{path} is an ONNX file: {QUERIES_ONLY}"]
    if batch is not None:
        notes.append(f"{path} takes exactly {batch} image{'' if batch == 1 else 's'} at a time, which makes it slower")
    ask = Session(session, runtime.RunOptions, inputs[0].name, output.name, NUMBERS[inputs[0].type], batch)
    return ForeignNetwork(BlackBox(ask, hash_onnx(path)), notes=tuple(notes), outputs=count)


def find_logits(path: Path, outputs: list[Any], k: int | None) -> Any:
    """The output called logits, or the only one that can have one number per class."""
    tables = [o for o in outputs if len(o.shape) == 2]
    if len(tables) == 1 and isinstance(tables[0].shape[1], int) and k is not None:
        check_outputs(path, tables[0].shape[1], k)
    fitting = {o.name: o for o in tables if k is None or not isinstance(o.shape[1], int) or o.shape[1] == k}
    if "logits" in fitting:
        return fitting["logits"]
    if len(fitting) != 1:
        seen = ", ".join(f"{o.name} {o.shape}" for o in outputs)
        raise ValueError(f"{path} must have one output of {k or 'all'} logits per image, but has {seen}: export it so")
    return next(iter(fitting.values()))


def hash_onnx(path: Path) -> str:
    """A hash of the file, and of the neighbours it names: large weights are kept beside it."""
    graph = path.read_bytes()
    neighbours = sorted(p for p in path.parent.iterdir() if p.is_file() and p != path and p.name.encode() in graph)
    return sha256(graph, *(part for p in neighbours for part in (p.name.encode(), p.read_bytes())))
