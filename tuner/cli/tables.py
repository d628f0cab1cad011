"""Tables on the terminal."""

from __future__ import annotations

import argparse
import csv
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from collforge.db import Undecided, Winner
from collforge.decision import UNDECIDED
from collforge.place import Place
from collforge.reference import References
from collforge.tuner.cli import plots
from collforge.tuner.run.options import STANDARD_OUTPUT
from collforge.tuner.run.pictures import Picture
from collforge.tuner.site import expected_times

Open = tuple[Place, Undecided]
"""A measured size without a winner, with its place (database key)."""


def winner_rows(
    winners: Sequence[Winner],
    undecided: Sequence[Open] = (),
    expected: Mapping[expected_times.Key, References] | None = None,
) -> list[dict[str, object]]:
    """Winners and undecided sizes as plain rows, for csv and json, sorted.

    With ``expected``, a winner's row has its ``references``, or None. The ``evidence`` of a row is decided or
    tie; for an undecided size it is neighbour or fallback (schema.sql), or undecided if nothing is stored.
    """
    rows: list[dict[str, object]] = [
        {
            **asdict(one.place),
            "collective": one.choice.variant.collective,
            "bytes": one.choice.bytes,
            "variant": one.choice.variant.name,
            "fingerprint": one.choice.variant.fingerprint,
            "ratio": one.choice.ratio,
            "ratio_low": one.choice.low,
            "ratio_high": one.choice.high,
            "launches": one.choice.launches,
            "evidence": one.choice.evidence,
            "decided": one.decided,
            **_references(one, expected),
        }
        for one in winners
    ]
    nothing = {"variant": "", "fingerprint": "", "ratio": None, "ratio_low": None}
    served = {(one.place, one.choice.variant.collective, one.choice.bytes) for one in winners}
    for place, one in undecided:
        if (place, one.collective, one.bytes) in served:
            continue
        row = {**asdict(place), "collective": one.collective, "bytes": one.bytes, **nothing}
        rest = {"launches": one.launches, "evidence": UNDECIDED, "decided": ""}
        rows.append({**row, "ratio_high": None, **rest})
    keys = ("system", "mpi", "mpi_version", "layout", "collective")
    return sorted(rows, key=lambda row: ([str(row[key]) for key in keys], row["bytes"]))


def _references(
    one: Winner, expected: Mapping[expected_times.Key, References] | None
) -> dict[str, object]:
    if expected is None:
        return {}
    found = expected.get((one.place, one.choice.variant.collective, one.choice.bytes))
    return {"references": found and asdict(found)}


def write_csv(rows: Sequence[dict[str, object]]) -> None:
    writer = csv.DictWriter(sys.stdout, list(rows[0]) if rows else [])
    writer.writeheader()
    writer.writerows(rows)


def save(
    args: argparse.Namespace, mpi: str, rows: Sequence[Mapping[str, object]], picture: Picture
) -> None:
    """Writes the files that --json and --plot name: what a command measured, and its picture."""
    if args.plot:
        plots.draw(picture, args.plot)
    write_document(args, rows, mpi=mpi)


def write_document(args: argparse.Namespace, rows: Sequence[object], **more: object) -> None:
    """Writes what --json names, if given: the rows, the command line that repeats them, and ``more``.

    A row is a mapping or a dataclass; NaN becomes null.
    """
    if not args.json:
        return
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    command = shlex.join(["collforge", *_without_outputs(args.words)])
    document = {"command": command, "date": now, "rows": rows, **more}
    text = (
        msgspec.json.format(msgspec.json.encode(document, enc_hook=str), indent=1).decode() + "\n"
    )
    if args.json == STANDARD_OUTPUT:
        args.standard_output.write(text)
    else:
        args.json.write_text(text, encoding="utf-8")


def _without_outputs(words: Sequence[str]) -> list[str]:
    """A command line without --json FILE and --plot FILE."""
    outputs = ("--json", "--plot")
    before = ["", *words]
    return [
        word
        for last, word in zip(before, words)
        if last not in outputs and word.partition("=")[0] not in outputs
    ]


class Legend:
    """Short names for a table's variants; full names would need up to ten lines of a narrow column."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        """Full name -> short name of the form ``FAMILY.NUMBER``."""

    def short(self, variant: str) -> str:
        """``full_lane.2`` for the second variant of a family; a name without parameters is not shortened."""
        if "[" not in variant:
            return variant
        family = variant.split("[", 1)[0]
        number = 1 + sum(one.startswith(f"{family}.") for one in self.names.values())
        return self.names.setdefault(variant, f"{family}.{number}")

    def show(self) -> None:
        """Prints each short name with its full name on one line, so that it can be copied."""
        width = max(map(len, self.names.values()), default=0)
        for variant, short in sorted(self.names.items(), key=lambda item: item[1].split(".")[0]):
            print(f"{short:{width}} = {variant}")


def narrow(title: str, padding: int = 0) -> Table:
    """A table without vertical lines, for 80 columns. ``padding``: blanks beside a cell."""
    sides = (0, padding)
    return Table(
        title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False, padding=sides
    )


def show(table: Table, wide: bool = False) -> None:
    """Prints a table; without a terminal, or if ``wide``, its width is not limited."""
    console = Console()
    if wide or not console.is_terminal:
        console = Console(width=max(160, Console(width=10000).measure(table).maximum))
    console.print(table)
