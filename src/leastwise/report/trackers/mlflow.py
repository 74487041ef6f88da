"""MLflow: a folder of plain files unless a server or a data base is named."""

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path

from leastwise.report.trackers.base import EpochTracker

KEY = "leastwise.key"  # the tag by which a training that goes on finds its run
FORBIDDEN = re.compile(r"[^\w\-. :]", re.ASCII)  # in the name of a metric: a slash would be a folder


class MLflow(EpochTracker):
    """Logs every epoch as metrics of a run, below a folder or to the server that `uri` names.

    With a `key`, a training that goes on adds to the run of that key.

    >>> import leastwise as lw
    >>> step = lw.TRADES(classes=10, listen=[lw.MLflow("runs/mlruns", run="a")])  # doctest: +SKIP
    """

    def __init__(self, uri: str | Path, *, experiment: str = "leastwise", run: str = "", key: str = "") -> None:
        if "://" not in str(uri):
            uri = Path(uri).absolute().as_uri()
        if str(uri).startswith("file:"):  # MLflow prefers data bases, which its small build does not have
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        try:
            from mlflow.entities import Metric
            from mlflow.tracking import MlflowClient
        except ImportError:
            raise ValueError("MLflow is not installed: pip install 'leastwise[mlflow]'") from None
        self.metric, self.client = Metric, MlflowClient(str(uri))
        known = self.client.get_experiment_by_name(experiment)
        number = self.client.create_experiment(experiment) if known is None else known.experiment_id
        same = self.client.search_runs([number], f"tags.`{KEY}` = '{key}'") if key else []
        tags = {KEY: key} if key else {}
        chosen = same[0] if same else self.client.create_run(number, tags=tags, run_name=run or None)
        self.run_id: str = chosen.info.run_id

    def record(self, values: Mapping[str, float], epoch: int) -> None:
        now, names = round(1000 * time.time()), metric_names(values)
        metrics = [self.metric(names[name], value, now, epoch) for name, value in values.items()]
        for first in range(0, len(metrics), 1000):  # as many as MLflow takes at a time
            self.client.log_batch(self.run_id, metrics=metrics[first : first + 1000])

    def close(self) -> None:
        self.client.set_terminated(self.run_id)


def metric_names(values: Mapping[str, float]) -> dict[str, str]:
    """Names that MLflow takes, each only once: other letters become underscores, and a number tells equals apart."""
    found: dict[str, str] = {}
    for name in values:
        group, slash, rest = name.partition("/")
        plain = f"{group}{slash}{FORBIDDEN.sub('_', rest)}"
        taken, number = set(found.values()), 2
        made = plain
        while made in taken:
            made, number = f"{plain} {number}", number + 1
        found[name] = made
    return found
