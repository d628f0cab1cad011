"""The progress of a tuning: a progress bar on a terminal, else one line per launch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from collforge.tuner.run.tune import Progress
from collforge.units import format_duration


class Display(Protocol):
    """Used in a `with` statement."""

    def show(self, state: Progress) -> None: ...

    def __enter__(self) -> Display: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def make_display(label: str) -> Display:
    """The display for standard error: the bar if it is a terminal, else the log."""
    return _Terminal(label) if sys.stderr.isatty() else _Log(label)


class _Terminal:
    """The progress bar: problems settled, wins so far, current measurement, time left."""

    def __init__(self, label: str) -> None:
        self.progress = Bar(
            TextColumn(label),
            BarColumn(bar_width=20),
            TextColumn("{task.completed:.0f}/{task.total:.0f} settled, {task.fields[wins]} wins"),
            TextColumn("{task.fields[left]} left"),
            TextColumn("{task.description}", markup=False),
            console=Console(file=sys.stderr),
        )
        self.task = self.progress.add_task("", total=1, wins=0, left="")

    def __enter__(self) -> _Terminal:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def show(self, state: Progress) -> None:
        self.progress.update(
            self.task,
            completed=state.settled,
            total=state.problems,
            wins=state.wins,
            left=format_duration(state.seconds_left),
            description=state.doing,
        )


class _Log:
    """One line after each launch, for logs of batch jobs and pipelines."""

    def __init__(self, label: str, write: Callable[[str], object] = sys.stderr.write) -> None:
        self.label = label
        self.write = write
        self.launches = -1

    def __enter__(self) -> _Log:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, state: Progress) -> None:
        if state.launches == self.launches:
            return
        self.launches = state.launches
        left = format_duration(state.seconds_left)
        self.write(
            f"{self.label}: launch {state.launches}: {state.settled} of {state.problems} problems decided, "
            f"{state.problems - state.settled} open, {state.wins} won by a variant; {left} left\n"
        )
        sys.stderr.flush()
