"""`collforge reproduce`: a figure of a paper, measured on your own cluster."""

from __future__ import annotations

import argparse
import csv
import json
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from collforge.errors import CollforgeError, unknown
from collforge.home import home, make_folder
from collforge.layout import from_name
from collforge.mpi_library import MpiLibrary
from collforge.papers import figures
from collforge.papers.figures import Figure
from collforge.tuner.cli import plots, tables
from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.run import measuring, pictures
from collforge.tuner.run.options import add_mpi, find_libraries, output_file
from collforge.tuner.run.pictures import Picture

NOT_MEASURED = "not measured"


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "reproduce",
        "measure and draw a figure of a paper on your own cluster, and compare the findings",
        "collforge reproduce multi-lane 1 --mpi openmpi --system emulated --quick",
        run,
    )
    parser.add_argument("paper", nargs="?", help="see --list")
    parser.add_argument("figure", nargs="?", help="its number (default: all of the paper)")
    parser.add_argument("--all", action="store_true", help="all figures of all papers")
    parser.add_argument(
        "--list", action="store_true", help="all figures, and why some have no command"
    )
    parser.add_argument("--quick", action="store_true", help="fewer sizes and launches")
    parser.add_argument(
        "--again", action="store_true", help="measure again what a former run has left"
    )
    add_mpi(parser)
    measuring.add_system(parser)
    text = "write what was found of each figure, with the command and the date"
    parser.add_argument("--json", metavar="FILE", type=output_file, help=text)


def run(args: argparse.Namespace) -> int:
    """Returns 1 if a figure cannot be shown."""
    system = measuring.system_name(args)
    if args.list:
        _list(figures.read(), system)
        return 0
    if args.figure is not None:
        rows = _show(figures.find(args.paper, args.figure), args)
    elif args.paper is None and not args.all:
        raise CollforgeError(
            "name a paper and a figure, or --all; `collforge reproduce --list` has them all"
        )
    else:
        rows = _show_all(args)
    names = dict.fromkeys(row["mpi"] for row in rows if row["mpi"])
    tables.write_document(args, rows, mpi=", ".join(names))
    return int(not rows or any(not row["mpi"] for row in rows))


def _show_all(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Every figure that has a command, or those of a paper. One that fails does not end the others."""
    papers = {figure.paper for figure in figures.read().values()}
    if args.paper is not None and args.paper not in papers:
        raise unknown("paper", args.paper, papers)
    rows: list[dict[str, Any]] = []
    for figure in figures.read().values():
        if figure.none or args.paper not in (None, figure.paper):
            continue
        try:
            rows += _show(figure, args)
        except CollforgeError as error:
            print(f"{figure.name}: {error}", flush=True)
            rows.append(_row(figure, "", None, NOT_MEASURED))
    return rows


def _row(figure: Figure, mpi: str, value: float | None, said: str) -> dict[str, Any]:
    """A line of the --json file. No library: none could measure the figure."""
    return {
        "figure": f"{figure.paper}, {figure.title}",
        "shows": figure.shows,
        "finding": figure.finding,
        "mpi": mpi,
        "value": value,
        "said": said,
    }


def _show(figure: Figure, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Measures and draws a figure; what it says of each library. No rows if it has no command."""
    print(f"{figure.source}, {figure.title}. {figure.shows}.")
    print(f"Paper: {figure.finding}")
    if figure.none:
        print(f"No command: {figure.none}")
        return []
    folder = make_folder(_folder(figure, measuring.system_name(args), args.quick))
    found, rows = [], []
    for library in find_libraries(args.mpi):
        try:
            one = _measure(figure, library, args, folder)
        except CollforgeError as error:
            print(f"{library.short_version}: {error}", flush=True)
            rows.append(_row(figure, library.short_version, None, NOT_MEASURED))
            continue
        found.append(one)
        rows.append(_row(figure, one.mpi, figure.measured(one.rows), verdict(figure, one)))
        print(f"Ours, {one.mpi}: {verdict(figure, one)}")
    if not found:
        raise CollforgeError(f"{figure.title} cannot be shown")
    _write_csv(found, folder / "figure.csv")
    picture = pictures.join({one.mpi: one.picture for one in found})
    for ending in ("svg", "png", "pdf"):
        plots.draw(picture, folder / f"figure.{ending}")
    print(f"JSON, CSV and the picture: {folder}", flush=True)
    return rows


@dataclass(frozen=True)
class Measured:
    """What one MPI library gave."""

    mpi: str
    """Name and version."""
    flavor: str
    rows: Sequence[Mapping[str, Any]]
    picture: Picture


def _folder(figure: Figure, system: str, quick: bool) -> Path:
    name = f"{figure.paper}-{figure.figure}-{system}" + ("-quick" if quick else "")
    return home() / "figures" / name


def verdict(figure: Figure, found: Measured) -> str:
    value = figure.measured(found.rows)
    if value is None:
        return f"no row has {figure.value}, so nothing can be said"
    said = f"{figure.take} {figure.value}"
    said += f" / {figure.divided_by}" if figure.divided_by else ""
    if figure.mpi not in ("", found.flavor):
        return f"{said} {value:.2f} (the paper's finding is about {figure.mpi})"
    most = figure.at_most is not None
    bound = f"at most {figure.at_most:g}" if most else f"at least {figure.at_least:g}"
    same = "same trend" if figure.holds(value) else "another trend"
    return f"{said} {value:.2f}: {same} ({bound} expected)"


def _measure(
    figure: Figure, library: MpiLibrary, args: argparse.Namespace, folder: Path
) -> Measured:
    """Runs the figure's command on its layouts, as far as results are not there."""
    layouts = [args.layout] if args.layout else [figure.layout]
    if figure.over:
        layouts = args.layout.split(",") if args.layout else list(figure.over)
    documents = {}
    for layout in layouts:
        words = figure.command(layout, _where(args, library), args.quick)
        path = folder / f"{'-'.join(filter(None, [library.name, layout]))}.json"
        documents[layout] = _run(words, path, args.again)
    drawn = {layout: pictures.read(one["picture"]) for layout, one in documents.items()}
    if figure.over:
        numbers = {from_name(layout).nodes: picture for layout, picture in drawn.items()}
        picture: Picture = pictures.across("nodes", numbers)
    else:
        (picture,) = drawn.values()
    rows = [{"layout": at, **row} for at, one in documents.items() for row in one["rows"]]
    return Measured(library.short_version, library.flavor, rows, picture)


def _where(args: argparse.Namespace, library: MpiLibrary) -> list[str]:
    """The options that select library and system."""
    words = ["--mpi", library.name, "--system", args.system]
    words += ["--config", str(args.config)] if args.config else []
    return [
        *words,
        "--rails",
        str(args.rails),
        "--rate",
        args.rate,
        "--rail-model",
        args.rail_model,
    ]


def _run(words: Sequence[str], path: Path, again: bool) -> dict[str, Any]:
    """The --json file of a command, which is run unless the file is there."""
    command = shlex.join(["collforge", *words])
    if again or not path.exists() or json.loads(path.read_text())["command"] != command:
        print(command, flush=True)
        whole = [sys.executable, "-m", "collforge", *words, "--json", str(path)]
        if subprocess.run(whole, check=False).returncode != 0 or not path.exists():
            raise CollforgeError(f"not measured: {command}")
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def _write_csv(found: Sequence[Measured], path: Path) -> None:
    """The rows of all libraries."""
    rows = [{"mpi": one.mpi, **row} for one in found for row in one.rows]
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _list(found: Mapping[str, Figure], system: str) -> None:
    table = Table(title=f"figures and tables of the papers, system {system}")
    for heading in ("paper", "", "shows", "status"):
        table.add_column(heading)
    for figure in found.values():
        table.add_row(figure.paper, figure.title, figure.shows, escape(_status(figure, system)))
    tables.show(table)


def _status(figure: Figure, system: str) -> str:
    if figure.none:
        return f"none: {figure.none}"
    done = [
        "quick" if quick else "measured"
        for quick in (False, True)
        if list(_folder(figure, system, quick).glob("*.json"))
    ]
    return ", ".join(done) or "can be measured"
