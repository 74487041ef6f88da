"""TensorBoard: the same numbers as `epochs.jsonl`, as scalars."""

from collections.abc import Callable, Sequence
from pathlib import Path

from leastwise.jobs.events import JobEvent
from leastwise.training.base import Epoch, Seen


def record_to_tensorboard(
    folder: Path, names: Sequence[str], watch: Callable[[JobEvent], None]
) -> Callable[[JobEvent], None]:
    """A listener that writes every epoch's numbers for TensorBoard, then tells `watch`."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ValueError("TensorBoard is not installed: pip install 'leastwise[tensorboard]'") from None
    writer = SummaryWriter(str(folder))

    def record(event: JobEvent) -> None:
        if isinstance(event, Epoch):
            for name, value in scalars(event, names).items():
                writer.add_scalar(name, value, event.number)
            writer.flush()
        watch(event)

    return record


def scalars(seen: Epoch, names: Sequence[str]) -> dict[str, float]:
    """Loss, rate, and for each side the averages and every class's accuracy; classes without images are left out."""
    found = {"loss": seen.loss, "rate": seen.rate}
    for side in ("train", "record", "valid", "averaged", "test"):
        part: Seen | None = getattr(seen, side)
        if part is None:
            continue
        for kind, tally in (("clean", part.clean), ("attacked" if side == "train" else "robust", part.robust)):
            present = [(n, a) for n, a in zip(names, tally.accuracy.tolist(), strict=True) if a == a]
            if present:
                found |= {f"{side} {kind}/{name}": accuracy for name, accuracy in present}
                found[f"{side} {kind}/average"] = tally.overall
                found[f"{side} {kind}/worst"] = min(accuracy for _, accuracy in present)
    return found
