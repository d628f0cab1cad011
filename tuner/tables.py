"""Tables on the terminal."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Collection, Sequence
from dataclasses import asdict

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from collforge.db import Winner
from collforge.tuner.request import format_size


def print_winners(winners: Sequence[Winner], unsized: Collection[str] = ()) -> None:
    """One row a winner, grouped by MPI library and collective; those of `unsized` serve every size."""
    if not winners:
        print("no winners yet: run `collforge tune`")
        return
    table = Table(title="winners: how much faster than native")
    for name in ("system", "MPI library", "layout", "collective", "bytes", "variant"):
        table.add_column(name, justify="right" if name == "bytes" else "left", overflow="fold")
    for name in ("ratio", "95 % interval", "launches"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in winners:
        choice, native = one.choice, one.choice.variant.is_native
        table.add_row(
            one.place.system,
            one.place.mpi,
            one.place.layout,
            choice.variant.collective,
            "any" if choice.variant.collective in unsized else format_size(choice.bytes),
            escape(choice.variant.name),
            "1.00" if native else f"{choice.ratio:.2f}",
            "" if native else f"{choice.low:.2f} .. {choice.high:.2f}",
            str(choice.launches),
        )
    show(table)


def winner_rows(winners: Sequence[Winner]) -> list[dict[str, object]]:
    """Winners as plain rows, for csv and json."""
    return [
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
            "decided": one.decided,
        }
        for one in winners
    ]


def write_csv(rows: Sequence[dict[str, object]]) -> None:
    writer = csv.DictWriter(sys.stdout, list(rows[0]) if rows else [])
    writer.writeheader()
    writer.writerows(rows)


def write_json(rows: object) -> None:
    json.dump(rows, sys.stdout, indent=1)
    print()


def show(table: Table) -> None:
    """Prints a table; as wide as it needs where the output is no terminal."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    console.print(table)
