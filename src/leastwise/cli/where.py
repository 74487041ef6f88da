"""Where the work of a verb is done: in this process, or by the workers of a cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from leastwise.core.parsing import parse_seconds

if TYPE_CHECKING:
    from leastwise.jobs.executor import Hands


@dataclass(frozen=True)
class Where:
    """Who computes."""

    engine: Literal["local", "dask"] = "local"
    """this process (local), or the workers of a Dask cluster (dask; needs leastwise[cluster])"""
    scheduler: Annotated[str, tyro.conf.arg(metavar="ADDRESS")] = ""
    """dask: the cluster to use, such as tls://machine:8786; without it, workers are started on this machine"""
    workers: int = 0
    """dask, without --scheduler: how many processes to start here, with one thread each; 0 for one per processor"""
    tls: Annotated[str, tyro.conf.arg(metavar="DIR")] = ""
    """dask: a folder with cert.pem, key.pem and, if wanted, ca.pem"""
    plain_tcp: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """dask: allow an unencrypted address off this machine, on a network that is yours alone"""
    shard_limit: Annotated[str, tyro.conf.arg(metavar="TIME")] = ""
    """dask: a shard that takes longer, such as 30m, is given to another worker; twenty times what it should take, and
    ten minutes at least, unless given"""

    @property
    def apart(self) -> bool:
        return self.engine != "local"

    def threads(self, wanted: int) -> int:
        """Of each process: workers share a machine, so one unless more were asked for."""
        return wanted or (1 if self.apart else 0)

    def check(self) -> None:
        """Find a mistake before anything is loaded."""
        given = [name for name in ("scheduler", "workers", "tls", "shard_limit") if getattr(self, name)]
        if given and not self.apart:
            raise ValueError(f"--{given[0].replace('_', '-')} needs --engine dask")
        parse_seconds(self.shard_limit, "--shard-limit")
        if self.workers < 0:
            raise ValueError(f"--workers must be 1 or more, or 0 for one per processor, but saw {self.workers}")
        if self.scheduler and self.workers:
            raise ValueError("--workers starts processes here, --scheduler uses those of a cluster: give one of them")

    @contextmanager
    def hands(self) -> Iterator["Hands"]:
        """Those who compute; a cluster that was started here ends with this."""
        from leastwise.jobs.executor import HERE

        if not self.apart:
            yield HERE
            return
        try:
            from leastwise.jobs.dask.cluster import connected, processors
        except ImportError:
            raise ValueError("Dask is not installed: pip install 'leastwise[cluster]'") from None
        folder = Path(self.tls) if self.tls else None
        count = 0 if self.scheduler else self.workers or processors()
        limit = parse_seconds(self.shard_limit, "--shard-limit")
        with connected(self.scheduler, count, folder, self.plain_tcp, limit) as hands:
            yield hands
