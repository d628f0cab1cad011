"""What `collforge probe NAME` measures of the machine or of Collforge itself, one module each.

A module here with a `run` is a probe, under the module's name, with no further change. It has

- `SUMMARY`: what it measures, in one line;
- `add_arguments(parser)`: adds its own options; --mpi, --json and --plot are every probe's;
- `run(library, args)`: measures, and returns a `Result`.

Like a command, it imports inside `run` what is slow to import.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table


@dataclass(frozen=True)
class Result(ABC):
    """What a probe found."""

    title: str
    """What was measured, on which library and how often: the head of the table and of the plot."""
    rows: Sequence[Any]
    """Dataclasses of plain data, for --json: their fields are described where they are defined."""

    @abstractmethod
    def table(self) -> Table: ...

    @abstractmethod
    def plot(self, path: Path) -> None: ...

    def remark(self) -> str:
        """A line below the table; '' for none."""
        return ""

    def failed(self) -> bool:
        """Whether what was measured breaks a promise of Collforge's."""
        return False
