"""What a job's script writes about its launch: how it began, and how it ended. One JSON object per line.

The second line is missing if the script did not reach its end: the scheduler ended the job, or a node died.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import msgspec

FILE = "launch.jsonl"
"""Its name in the stage directory of the ReFrame test."""

CANCELLED, STORED = "cancelled", "stored"
"""Files in a job's folder: nobody waits for the job any more; its results are stored."""


@dataclass(frozen=True)
class LaunchLog:
    """How a job began and ended."""

    began: int
    """Unix time."""
    job: str = ""
    """The scheduler's name of the job."""
    scheduler: str = ""
    launcher: str = ""
    """ReFrame's names of the scheduler and the launcher."""
    pmi: str = ""
    """By which srun was told to start the ranks (SLURM_MPI_TYPE); '' if not told."""
    nodes: str = ""
    """The nodes as the scheduler names them."""
    status: Optional[int] = None  # noqa: UP045 (msgspec evaluates it, on Python 3.9, too)
    """The exit code of the launcher; None if the script did not get so far."""
    seconds: int = 0
    """From the script's first line to the launcher's end."""


_PLAIN = r"//[^A-Za-z0-9_.,+\[\]-]/"
"""In ${NAME//…}: removes what JSON would have to quote."""


def first_line(scheduler: str, launcher: str) -> list[str]:
    """The commands of a job's script that begin the file."""
    variables = {"job": "SLURM_JOB_ID", "pmi": "SLURM_MPI_TYPE", "nodes": "SLURM_JOB_NODELIST"}
    values = {name: f"${{{variable}{_PLAIN}}}" for name, variable in variables.items()}
    fields = {"scheduler": scheduler, "launcher": launcher, **values}
    words = "".join(f',\\"{name}\\":\\"{value}\\"' for name, value in fields.items())
    return [f'echo "{{\\"began\\":$(date +%s){words}}}" > {FILE}']


def last_line() -> list[str]:
    """The commands after the launcher, which end the file; the exit code stays that of the launcher."""
    return [
        "collforge_status=$?",
        f'echo "{{\\"status\\":$collforge_status,\\"seconds\\":$SECONDS}}" >> {FILE}',
        "(exit $collforge_status)",
    ]


def read(folder: Path) -> LaunchLog | None:
    """The log in a test's directory; None if the job did not begin, or the file cannot be read."""
    try:
        lines: Sequence[str] = (folder / FILE).read_text(encoding="utf-8").splitlines()
        fields: dict[str, Any] = {}
        for line in lines:
            found: Mapping[str, Any] = msgspec.json.decode(line, type=dict[str, Any])
            fields.update(found)
        return msgspec.convert(fields, LaunchLog)
    except (OSError, ValueError):
        return None
