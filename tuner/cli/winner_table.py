"""The table of winners: a few columns that fit 80 characters, or all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from rich.markup import escape
from rich.table import Table

from collforge.db import Winner
from collforge.generator.manifest import Manifest
from collforge.mpi_library import short_version
from collforge.reference import References
from collforge.tuner.cli.tables import Open, narrow, show, winner_rows
from collforge.tuner.site.expected_times import Key
from collforge.units import format_seconds, format_size
from collforge.variant import NATIVE, split_name

WORDS = {
    "tie": "native is as fast as the best variant",
    "neighbour": "undecided; a neighbouring size's winner serves, not slower than native",
    "fallback": "undecided; native serves, the neighbours' winners may be slower there",
    "undecided": "the winner of a neighbouring size, or of the blocking collective, or native",
}
ALL = (
    "system",
    "mpi",
    "layout",
    "collective",
    "bytes",
    "variant",
    "ratio",
    "interval",
    "launches",
    "evidence",
)


def print_winners(
    winners: Sequence[Winner],
    undecided: Sequence[Open] = (),
    made: Manifest | None = None,
    expected: Mapping[Key, References] | None = None,
    wide: bool = False,
) -> None:
    """Prints a row for each winner and undecided size; `expected` has the winners' times."""
    if not winners and not undecided:
        print("no winners yet: run `collforge tune`")
        return
    rows = winner_rows(winners, undecided, expected)
    if wide:
        print_wide(rows)
    else:
        for place, group in groupby(
            rows, lambda row: (row["system"], row["mpi_version"], row["layout"])
        ):
            system, version, layout = map(str, place)
            title = f"{system}, {short_version(version)}, {layout}"
            print_narrow(title, list(group), made)
    for word, meaning in WORDS.items():
        if any(row["evidence"] == word for row in rows):
            print(f"{word}: {meaning}")


def print_narrow(title: str, rows: Sequence[Mapping[str, object]], made: Manifest | None) -> None:
    """The time is the winner's, the gain native's divided by it."""
    table = narrow(title, padding=1)
    table.add_column("collective", no_wrap=True)
    for name in ("bytes", "time", "gain", "95 %"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("variant", overflow="fold")
    for row in rows:
        won = row["variant"] not in ("", NATIVE)
        references = row.get("references")
        seconds = references["seconds"]["mean"] if isinstance(references, dict) else None
        decided = row["evidence"] == "decided"
        table.add_row(
            str(row["collective"]),
            size_of(row, made),
            "" if seconds is None else format_seconds(seconds),
            f"{row['ratio']:.2f}" if won else "",
            f"{row['ratio_low']:.2f}-{row['ratio_high']:.2f}" if won else "",
            escape(brief(row, made) + ("" if decided else f" ({row['evidence']})")),
        )
    show(table)


def print_wide(rows: Sequence[Mapping[str, object]]) -> None:
    table = Table(title="winners: how much faster than native")
    for name in ALL:
        table.add_column(
            name,
            justify="right" if name in ("bytes", "ratio", "launches") else "left",
            overflow="fold",
        )
    for row in rows:
        won = row["variant"] not in ("", NATIVE)
        interval = f"{row['ratio_low']:.2f} .. {row['ratio_high']:.2f}" if won else ""
        cells = {**row, "ratio": f"{row['ratio']:.2f}" if won else "", "interval": interval}
        table.add_row(*(escape(str(cells[name])) for name in ALL))
    show(table, wide=True)


def size_of(row: Mapping[str, object], made: Manifest | None) -> str:
    return (
        "any" if made and row["collective"] in made.unsized else format_size(int(str(row["bytes"])))
    )


def brief(row: Mapping[str, object], made: Manifest | None) -> str:
    """The variant's family, and the parameters that differ from the first value of each."""
    name = str(row["variant"])
    if not name:
        return "-"
    family, text = split_name(name)
    entries = made.variants_of(str(row["collective"])) if made else []
    usual = {
        f"{one.name}={one.values[0]}"
        for entry in entries
        if entry.family == family
        for one in entry.parameters
    }
    return " ".join([family, *(word for word in text.split(",") if word and word not in usual)])
