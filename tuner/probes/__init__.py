"""The probes of `collforge probe NAME`, one module each.

A module here with a `run` is a probe, under the module's name, with no further change. It has

- `SUMMARY`: what it measures, in one line;
- `add_arguments(parser)`: adds its own options; every probe has --mpi, --json and --plot;
- `run(library, args)`: measures, and returns a `Result`.

As in a command, slow imports belong inside `run`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from collforge.tuner.run.pictures import Picture


@dataclass(frozen=True)
class Result(ABC):
    """The result of a probe."""

    title: str
    """The title of table and plot: what was measured, with which library and how often."""
    rows: Sequence[Any]
    """Dataclasses of plain data for --json."""

    @abstractmethod
    def table(self) -> Table: ...

    @abstractmethod
    def picture(self) -> Picture: ...

    def remark(self) -> str:
        """A line below the table; '' for none."""
        return ""

    def failed(self) -> bool:
        """Whether the measurement violates a guarantee of Collforge."""
        return False
