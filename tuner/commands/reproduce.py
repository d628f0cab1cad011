"""`collforge reproduce`: a figure of a paper, measured on your own cluster."""

from __future__ import annotations

import argparse
import csv
import json
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from collforge.errors import CollforgeError
from collforge.home import home, make_folder
from collforge.mpi_library import MpiLibrary
from collforge.tuner import figures, tables, target
from collforge.tuner.figures import Figure
from collforge.tuner.parsing import Subparsers, add_command, add_mpi, find_libraries


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "reproduce",
        "measure and draw a figure of a paper on your own cluster, and compare the findings",
        "collforge reproduce multi-lane 1 --mpi openmpi --system emulated --quick",
        run,
    )
    parser.add_argument("paper", nargs="?", help="see --list")
    parser.add_argument("figure", nargs="?", help="its number")
    parser.add_argument("--list", action="store_true", help="the figures that can be reproduced")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and launches")
    parser.add_argument(
        "--again", action="store_true", help="measure again what a former run has left"
    )
    add_mpi(parser)
    target.add_system(parser)


def run(args: argparse.Namespace) -> int:
    if args.list:
        _list(figures.read())
        return 0
    if args.paper is None or args.figure is None:
        raise CollforgeError("name a paper and a figure; `collforge reproduce --list` has them all")
    figure = figures.find(args.paper, args.figure)
    quick = "-quick" if args.quick else ""
    system = target.system_name(args)
    folder = make_folder(home() / "figures" / f"{figure.paper}-{figure.figure}-{system}{quick}")
    print(f"{figure.source}, Fig. {figure.figure}. {figure.shows}.")
    print(f"Paper: {figure.finding}")
    for library in find_libraries(args.mpi):
        rows = _measure(figure, library, args, folder)
        print(f"Ours, {library.short_version}: {verdict(figure, rows)}")
    print(f"JSON, CSV and plots: {folder}")
    return 0


def verdict(figure: Figure, rows: Sequence[Mapping[str, Any]]) -> str:
    found = figure.measured(rows)
    if found is None:
        return f"no row has {figure.value}, so nothing can be said"
    most = figure.at_most is not None
    bound = f"at most {figure.at_most:g}" if most else f"at least {figure.at_least:g}"
    same = "same trend" if figure.holds(found) else "another trend"
    return f"{figure.take} {figure.value} {found:.2f}: {same} ({bound} expected)"


def _measure(
    figure: Figure, library: MpiLibrary, args: argparse.Namespace, folder: Path
) -> list[dict[str, Any]]:
    """Runs the figure's command, unless its results are there; leaves JSON, CSV and a plot."""
    words = figure.command(args.layout or figure.layout, args.quick)
    words += ["--mpi", library.name, "--system", args.system]
    words += ["--config", args.config] if args.config else []
    words += ["--rails", str(args.rails), "--rate", args.rate, "--rail-model", args.rail_model]
    command, path = shlex.join(["collforge", *words]), folder / f"{library.name}.json"
    if args.again or not path.exists() or json.loads(path.read_text())["command"] != command:
        print(command, flush=True)
        outputs = ["--json", str(path), "--plot", str(path.with_suffix(".svg"))]
        done = subprocess.run([sys.executable, "-m", "collforge", *words, *outputs], check=False)
        if done.returncode != 0 or not path.exists():
            raise CollforgeError(f"figure {figure.name} was not measured with {library.name}")
    rows: list[dict[str, Any]] = json.loads(path.read_text())["rows"]
    with path.with_suffix(".csv").open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return rows


def _list(found: Mapping[str, Figure]) -> None:
    table = Table(title="figures")
    for heading in ("paper", "figure", "source", "shows"):
        table.add_column(heading)
    for figure in found.values():
        table.add_row(figure.paper, figure.figure, figure.source, figure.shows)
    tables.show(table)
