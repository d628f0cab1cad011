"""`collforge profile`: what an application calls, where its time goes, and what tuning would buy."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from collforge import units
from collforge.db import Store
from collforge.errors import CollforgeError
from collforge.place import Place
from collforge.toolchain import build
from collforge.tuner.cli import plots, tables
from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.decide import profile
from collforge.tuner.decide.evidence import Interval
from collforge.tuner.decide.profile import Calls, Profile
from collforge.tuner.decide.savings import savings
from collforge.tuner.run import measuring
from collforge.tuner.run.options import (
    add_database,
    add_json,
    add_mpi,
    add_rails,
    find_libraries,
    input_file,
    plot_file,
    positive,
)
from collforge.tuner.run.pictures import DotPicture, Dots

SUMMARY = "what an application calls (COLLFORGE_PROFILE), and what tuning would buy"
EXAMPLE = """\
collforge profile show calls.csv
  collforge profile gain calls.csv --system emulated --mpi openmpi"""
NOTE = (
    "time: of the job, from MPI_Init to MPI_Finalize, without waiting; waiting: for the latest rank, "
    "estimated (part of the time if there is a root); origin: how the communicators were made; dropped: on so "
    "many of them, the guard found a variant slower than native"
)


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "profile", SUMMARY, EXAMPLE)
    kinds = parser.add_subparsers(metavar="show|gain", required=True)
    show = add_command(
        kinds, "show", "where the time of collectives goes", EXAMPLE.splitlines()[0], run_show
    )
    show.add_argument("--plot", metavar="FILE", type=plot_file, help="draw it (.png, .svg, .pdf)")
    gain = add_command(
        kinds, "gain", "what the stored winners save", EXAMPLE.splitlines()[1].strip(), run_gain
    )
    measuring.add_place(gain)
    add_rails(gain)
    gain.set_defaults(layout=None)
    add_mpi(gain)
    add_database(gain)
    for each in (show, gain):
        add_json(each)
        each.add_argument("files", metavar="FILE", nargs="+", type=input_file)
        each.add_argument("--most", type=positive, default=20, help="rows (default: %(default)s)")
        each.add_argument(
            "--wide",
            action="store_true",
            help="also communicators, their origin, the time of a call",
        )


def _read(paths: Sequence[Path]) -> Profile:
    found = profile.read(paths)
    if not found.rows and not found.nonblocking:
        raise CollforgeError("the profiles have no collectives")
    return found


def run_show(args: argparse.Namespace) -> int:
    found = _read(args.files)
    table = _table(_title(found), args.wide)
    for row in found.rows[: args.most]:
        table.add_row(*_cells(found, row, args.wide))
    if found.rows:
        tables.show(table, args.wide)
        print(NOTE if args.wide else NOTE.partition(";")[0])
    _tell_nonblocking(found, args.most)
    if args.plot:
        plots.draw(picture(found, args.most), args.plot)
    tables.write_document(args, found.rows, seconds=found.seconds, nonblocking=found.nonblocking)
    return 0


def _tell_nonblocking(found: Profile, most: int) -> None:
    if not found.nonblocking:
        return
    table = tables.narrow("nonblocking calls")
    for name in ("collective", "layout"):
        table.add_column(name)
    for name in ("bytes", "calls", "under way", "overlap"):
        table.add_column(name, justify="right")
    for row in found.nonblocking[:most]:
        known = row.overlap is not None
        times = [f"{_part(found, row.seconds):.1%}", f"{row.overlap:.0%}"] if known else ["", ""]
        size = units.format_about(row.size)
        table.add_row(row.collective, escape(row.layout), size, str(row.calls), *times)
    tables.show(table)
    print(
        "under way: part of the job's time; overlap: the part of that which the program was not in MPI. "
        "Native's, as all without COLLFORGE_NONBLOCKING=1, are not known"
    )


def _title(found: Profile) -> str:
    moving, waited = (_part(found, seconds) for seconds in (found.moving, found.waited))
    return f"collectives: {moving:.1%} of the time, and {waited:.1%} waiting"


def _part(found: Profile, seconds: float) -> float:
    return seconds / found.seconds if found.seconds else 0.0


def _table(title: str, wide: bool) -> Table:
    table = tables.narrow(title)
    for name in ("collective", "layout", *(["origin"] if wide else [])):
        table.add_column(name)
    more = ("communicators", "dropped", "a call") if wide else ()
    for name in ("bytes", "calls", "time", "waiting", *more):
        table.add_column(name, justify="right")
    return table


def _cells(found: Profile, row: Calls, wide: bool) -> list[str]:
    at = row.at
    each = row.seconds / (row.calls * at.size) if at and row.calls else 0.0
    cells = [
        units.format_about(row.size),
        str(row.calls),
        f"{_part(found, row.moving):.1%}",
        f"{_part(found, row.waited):.1%}",
    ]
    if not wide:
        return [row.collective, escape(row.layout), *cells]
    more = [
        str(row.communicators),
        str(row.dropped or ""),
        units.format_seconds(each) if each else "",
    ]
    return [row.collective, escape(row.layout), row.origin, *cells, *more]


def picture(found: Profile, most: int) -> DotPicture:
    """Two panels of rows, the most expensive first."""
    rows = found.rows[:most]
    panels = {}
    for title, seconds in (
        ("% of the job", [row.moving for row in rows]),
        ("% waiting", [row.waited for row in rows]),
    ):
        values = {}
        for row, each in zip(rows, seconds):
            part = 100 * _part(found, each)
            name = f"{row.collective} {row.size} B @{row.layout} {row.origin}"
            if part > 0:  # the axis is logarithmic
                values[name] = Interval(part, part, part)
        if values:
            panels[title] = [Dots("time", values)]
    return DotPicture(panels, _title(found))


def run_gain(args: argparse.Namespace) -> int:
    found = _read(args.files)
    if found.tuned:
        print("these jobs had winners already: what they saved is not counted")
    made = build.read_manifest()
    rows: list[dict[str, object]] = []
    for library in find_libraries(args.mpi):
        with Store(args.db, create=False) as store:
            place = Place(measuring.system_name(args), library.name, library.first_line, "")
            saved = savings(store, made, place, found)
        total = sum(one.seconds for one in saved)
        legend = tables.Legend()
        table = _table(f"{library.name}: {_part(found, total):.1%} of the time saved", args.wide)
        table.add_column("saved", justify="right")
        table.add_column("by", overflow="fold")
        for row, one in list(zip(found.rows, saved))[: args.most]:
            variant, space, evidence = one.by.partition(" ")
            by = escape(legend.short(variant) + space + evidence)
            cells = _cells(found, row, args.wide)
            table.add_row(*cells, f"{_part(found, one.seconds):.1%}", by)
        tables.show(table, args.wide)
        legend.show()
        rows += [
            {"mpi": library.name, "calls": row, "saved": one.seconds, "by": one.by}
            for row, one in zip(found.rows, saved)
        ]
    _tell_nonblocking(found, args.most)
    if any(str(row["by"]).startswith("native:") for row in rows):
        command = ["collforge", "tune", "--profile", *map(str, args.files), "--system", args.system]
        command += [*(["--mpi", args.mpi] if args.mpi else []), "--db", str(args.db)]
        print(f"next, for what is native: {shlex.join(command)}")
    tables.write_document(args, rows, seconds=found.seconds)
    return 0
