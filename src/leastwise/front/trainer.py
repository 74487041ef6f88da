"""A step in the Trainer of Hugging Face: `lw.StepTrainer(step, model=net, args=…, train_dataset=…)`."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from leastwise.core.losses import ce
from leastwise.front.step import MethodStep
from leastwise.models.classifier import logits_of
from leastwise.report.trackers.base import epoch_values

STATE = "leastwise-step.pt"  # in the folder of every checkpoint


def StepTrainer(
    step: MethodStep,
    *,
    labels: Any = None,
    ids: Any = None,
    images: str = "pixel_values",
    target: str = "labels",
    **settings: Any,
) -> Any:
    """A `transformers.Trainer` whose loss is that of a step; `settings` are the Trainer's own.

    The data set gives dictionaries with `images`, floats in [0, 1], and `target`: the normalisation belongs into the
    model (`lw.model(net, mean=…, std=…)`), not into the image processor. With "ids", numbers that belong to the images,
    these have the same noise in any order. After every epoch what the step saw is logged
    to all that the Trainer reports to, and its state is in every checkpoint. With the `labels` of all training images
    (and their `ids`) the step also says in which order they come, as policies that draw classes need it.

    >>> import leastwise as lw
    >>> step = lw.TRADES(eps=8/255, policy=lw.CFA(), classes=10)
    >>> trainer = lw.StepTrainer(step, model=net, args=arguments, train_dataset=images)  # doctest: +SKIP
    >>> trainer.train()  # doctest: +SKIP
    """
    try:
        kind = trainer_type()
    except ImportError as error:
        raise ModuleNotFoundError(
            f"the Trainer of Hugging Face is not installed ({error.name or error}): pip install 'leastwise[trainer]'",
            name="accelerate",
        ) from None
    return kind(step, (labels, ids), (images, target), **settings)


@cache
def trainer_type() -> type:
    """The trainer, as a class of the library's own."""
    import accelerate  # noqa: F401  without it the Trainer is a stand-in that refuses later
    import transformers
    from transformers import trainer_utils

    library: Any = transformers
    utils: Any = trainer_utils

    class EpochEnd(library.TrainerCallback):  # type: ignore[misc]
        def __init__(self, trainer: Any) -> None:
            self.trainer = trainer

        def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            step = self.trainer.step
            self.trainer.log(epoch_values(step.end_epoch(), step.names))

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.is_world_process_zero:
                folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
                torch.save(self.trainer.step.state_dict(), folder / STATE)

    class TrainerOfStep(library.Trainer):  # type: ignore[misc]
        def __init__(self, step: MethodStep, known: tuple[Any, Any], keys: tuple[str, str], **settings: Any) -> None:
            if settings.get("args") is not None:
                settings["args"].remove_unused_columns = False  # a step needs images that no argument is named after
            super().__init__(**settings)
            self.step, self.known, self.keys = step, known, keys
            self.add_callback(EpochEnd(self))

        def compute_loss(
            self, model: nn.Module, inputs: Mapping[str, Tensor], return_outputs: bool = False, **_: Any
        ) -> Any:
            x, y = (inputs[key] for key in self.keys)
            if model.training:
                return self.step(model, x, y, inputs.get("ids"))
            z = logits_of(model(x))
            return (ce(z, y).mean(), {"logits": z}) if return_outputs else ce(z, y).mean()

        def _get_train_sampler(self, train_dataset: Any = None) -> Any:
            labels, ids = self.known
            if labels is not None:
                return self.step.sampler(labels, ids)
            return super()._get_train_sampler(train_dataset)

        def train(self, resume_from_checkpoint: Any = None, **settings: Any) -> Any:
            found = resume_from_checkpoint
            if found is True:
                found = utils.get_last_checkpoint(self.args.output_dir)
            if found and (Path(found) / STATE).is_file():
                self.step.load_state_dict(torch.load(Path(found) / STATE, weights_only=True))
            return super().train(resume_from_checkpoint, **settings)

    return TrainerOfStep
