"""`collforge reproduce`: a figure of a paper, measured on your own cluster, and a verdict for each claim."""

from __future__ import annotations

import argparse
import csv
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from collforge import site_file
from collforge.errors import CollforgeError, unknown
from collforge.home import home, make_folder
from collforge.layout import Layout, from_name
from collforge.mpi_library import MpiLibrary
from collforge.papers import figures
from collforge.papers.figures import Figure, claims, drawing, rows
from collforge.papers.figures.claims import Verdict
from collforge.papers.figures.rows import Row
from collforge.toolchain import simgrid
from collforge.tuner.cli import plots, tables
from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.run import measuring
from collforge.tuner.run.options import add_mpi, find_libraries, output_file

FAILED = ".failed"
"""The ending of a file with the reason why a library could not be measured."""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "reproduce",
        "measure and draw a figure of a paper on your own cluster, and judge what the paper says of it",
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
    measuring.add_system(parser, "the largest one; figures that need more use it instead")
    text = "write the verdict of each claim, with the command and the date"
    parser.add_argument("--json", metavar="FILE", type=output_file, help=text)


def run(args: argparse.Namespace) -> int:
    """Returns 1 if a figure cannot be shown."""
    if args.layout:
        from_name(args.layout)
    system = measuring.system_name(args)
    if args.list:
        _list(figures.read(), system)
        return 0
    if args.figure is not None:
        chosen = [figures.find(args.paper, args.figure)]
    elif args.paper is None and not args.all:
        raise CollforgeError(
            "name a paper and a figure, or --all; `collforge reproduce --list` has them all"
        )
    else:
        chosen = _of_paper(args.paper)
    found: list[dict[str, Any]] = []
    failed = any(figure.none for figure in chosen)
    for figure in chosen:
        try:
            found += _show(figure, args)
        except CollforgeError as error:
            if len(chosen) == 1:
                raise
            print(f"{figure.name}: {error}", flush=True)
            failed = True
    names = dict.fromkeys(row["mpi"] for row in found)
    tables.write_document(args, found, mpi=", ".join(names))
    return int(failed)


def _of_paper(paper: str | None) -> list[Figure]:
    """Every figure that has a command, of a paper or of all."""
    found = figures.read().values()
    papers = {figure.paper for figure in found}
    if paper is not None and paper not in papers:
        raise unknown("paper", paper, papers)
    return [figure for figure in found if not figure.none and paper in (None, figure.paper)]


@dataclass(frozen=True)
class Measured:
    """What one MPI library gave."""

    mpi: str
    """Name and version; of a simulation, which rules of which library it has."""
    flavor: str
    rows: Sequence[Row]


def _show(figure: Figure, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Measures and draws a figure; a row for each claim and library. None if it has no command.

    Raises CollforgeError if no library could be measured; what another lacks is printed.
    """
    print(f"{figure.source}, {figure.title}. {figure.shows}.")
    if figure.none or figure.picture is None:
        print(f"No command: {figure.none}")
        return []
    folder = make_folder(_folder(figure, measuring.system_name(args), args.quick))
    libraries = find_libraries(args.mpi)
    if args.figure is None:
        libraries = [one for one in libraries if figure.speaks_of(simgrid.stands_for(one))]
    if not libraries:
        print("Left out: the paper's claims are about another MPI library.")
        return []
    found = list(_measure_each(figure, libraries, args, folder))
    if not found:
        raise CollforgeError(f"{figure.title} cannot be shown")
    _write_csv(found, folder / "figure.csv")
    picture = drawing.draw(figure.picture, {one.mpi: one.rows for one in found})
    for ending in ("svg", "png", "pdf"):
        plots.draw(picture, folder / f"figure.{ending}")
    network = claims.SOFTWARE if measuring.is_this_machine(args) else ""
    judged = [(one, verdict) for one in found for verdict in verdicts(figure, one, network)]
    tables.show(_table(judged), wide=True)
    print(f"JSON, CSV and the picture: {folder}", flush=True)
    return [
        {"figure": figure.name, "shows": figure.shows, "mpi": one.mpi, **_plain(verdict)}
        for one, verdict in judged
    ]


def _measure_each(
    figure: Figure, libraries: Sequence[MpiLibrary], args: argparse.Namespace, folder: Path
) -> Iterator[Measured]:
    """What each library gave; why another one gave nothing is printed, and kept for --list."""
    for library in libraries:
        begin = time.monotonic()
        failure = folder / f"{library.name}{FAILED}"
        failure.unlink(missing_ok=True)
        try:
            found = _measure(figure, library, args, folder)
        except CollforgeError as error:
            print(f"{library.short_version}: {error}", flush=True)
            failure.write_text(f"{library.name}: {error}", encoding="utf-8")
            continue
        print(f"{library.short_version}: {time.monotonic() - begin:.0f} s", flush=True)
        yield found


def _plain(verdict: Verdict) -> dict[str, str]:
    return {"claim": verdict.claim, "verdict": verdict.word, "reason": verdict.reason}


def verdicts(figure: Figure, found: Measured, network: str) -> list[Verdict]:
    """Of the claims that are about this library."""
    grid = claims.Grid(found.rows, figure.names, network)
    return [claims.judge(claim, grid) for claim in figure.claims if claim.mpi in ("", found.flavor)]


def _table(judged: Sequence[tuple[Measured, Verdict]]) -> Table:
    table = Table(title="what the paper says")
    for heading in ("library", "claim", "verdict", "why"):
        table.add_column(heading, overflow="fold")
    for one, verdict in judged:
        table.add_row(one.mpi, verdict.claim, verdict.word, escape(verdict.reason))
    return table


def _folder(figure: Figure, system: str, quick: bool) -> Path:
    name = f"{figure.paper}-{figure.figure}-{system}" + ("-quick" if quick else "")
    return home() / "figures" / name


def _measure(
    figure: Figure, library: MpiLibrary, args: argparse.Namespace, folder: Path
) -> Measured:
    """Runs the figure's command on its layouts, as far as results are not there."""
    found: list[Row] = []
    for layout in layouts(figure, _largest(args)):
        words = figure.command(layout, _where(args, library), args.quick)
        path = folder / f"{'-'.join(filter(None, [library.name, layout.replace(',', '-')]))}.json"
        found += rows.read(_run(library, words, path, args.again), layout)
    lone = measuring.lone_rail(args, library) if figure.rails else ""
    simulated = library.name in simgrid.RULES
    found = [replace(row, doubt=row.doubt or lone, exact=simulated) for row in found]
    name = library.name if simulated else library.short_version
    return Measured(name, simgrid.stands_for(library), found)


def _largest(args: argparse.Namespace) -> str | None:
    """The layout that a figure's may not exceed: --layout, the site's, or that of the emulated cluster."""
    if args.layout or args.system in measuring.LAYOUTS:
        return args.layout  # type: ignore[no-any-return]
    if not args.config and (simulated := measuring.default_layout(args.system)):
        return simulated
    named = site_file.value("layout") if args.system == site_file.value("system") else None
    if named is None:
        raise CollforgeError(
            f"name the nodes of {args.system}: --layout 4x8, or `collforge site set layout 4x8`"
        )
    return named


def layouts(figure: Figure, largest: str | None) -> list[str]:
    """The figure's layouts, on a site of this size; '' if its command takes none.

    Raises CollforgeError if the largest layout is not regular.
    """
    wanted = figure.over or (figure.layout,)
    if largest is None or not figure.layout:
        return list(wanted)
    most = from_name(largest)
    if not most.regular:
        raise CollforgeError(f"--layout {largest}: name nodes and ranks, such as 8x16")
    last = from_name(wanted[-1].split(",")[-1])
    if len(wanted) == 1 and "," not in wanted[0] and (figure.all_nodes or last.nodes > 2):
        return [_fit(last, most.nodes, most)]
    fitted = [
        ",".join(dict.fromkeys(_fit(at, at.nodes, most) for at in map(from_name, each.split(","))))
        for each in wanted
    ]
    nodes = last.nodes
    while len(wanted) > 1 and nodes * 2 <= most.nodes:
        nodes *= 2
        fitted.append(_fit(last, nodes, most))
    return list(dict.fromkeys(fitted))


def _fit(at: Layout, nodes: int, most: Layout) -> str:
    """The layout on so many nodes, as far as there are, with all their ranks if the paper has several."""
    ranks = 1 if at.node_sizes[0] == 1 else most.node_sizes[0]
    fitted = from_name(f"{min(nodes, most.nodes)}x{ranks}x{at.threads}")
    return replace(fitted, sockets=most.sockets if ranks > 1 else "").name


def _where(args: argparse.Namespace, library: MpiLibrary) -> list[str]:
    """The options that select library and system."""
    words = ["--mpi", library.name, "--system", args.system]
    words += ["--config", str(args.config)] if args.config else []
    if args.system == "emulated":
        words += ["--rails", str(args.rails), "--rate", args.rate, "--rail-model", args.rail_model]
    return words


def _run(library: MpiLibrary, words: Sequence[str], path: Path, again: bool) -> dict[str, Any]:
    """The --json file of a command, which is run unless the file of the same library is there."""
    command = shlex.join(["collforge", *words])
    document = None if again else _stored(path)
    if document and (document["command"], document["mpi"]) == (command, library.short_version):
        return document
    print(command, flush=True)
    path.unlink(missing_ok=True)
    whole = [sys.executable, "-m", "collforge", *words, "--json", str(path)]
    done = subprocess.run(whole, check=False, stderr=subprocess.PIPE, text=True)
    print(done.stderr, end="", file=sys.stderr, flush=True)
    document = _stored(path)
    if done.returncode != 0 or document is None:
        said = done.stderr.strip().splitlines()[-1:] or ["it printed no reason"]
        raise CollforgeError(f"{said[0].removeprefix('collforge: error: ')} ({command})")
    return document


def _stored(path: Path) -> dict[str, Any] | None:
    """A --json file; None if there is none, or only a part of one."""
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    is_whole = isinstance(document, dict) and {"command", "mpi", "rows"} <= document.keys()
    return document if is_whole else None


def _write_csv(found: Sequence[Measured], path: Path) -> None:
    """The rows of all libraries, a line for each launch."""
    plain = [{"mpi": one.mpi, **row} for one in found for row in rows.table(one.rows)]
    with path.open("w", newline="", encoding="utf-8") as out:
        names = dict.fromkeys(name for row in plain for name in row)
        writer = csv.DictWriter(out, list(names))
        writer.writeheader()
        writer.writerows(plain)


def _list(found: Mapping[str, Figure], system: str) -> None:
    table = Table(title=f"figures and tables of the papers, system {system}")
    table.add_column("figure", no_wrap=True)
    for heading in ("status", "shows"):
        table.add_column(heading, no_wrap=True, overflow="ellipsis", ratio=1)
    for figure in found.values():
        table.add_row(figure.name, escape(_status(figure, system)), figure.shows)
    tables.show(table)


def _status(figure: Figure, system: str) -> str:
    if figure.none:
        return f"none: {figure.none}"
    folders = {"measured": _folder(figure, system, False), "quick": _folder(figure, system, True)}
    done = [word for word, folder in folders.items() if list(folder.glob("*.json"))]
    failures = [path for folder in folders.values() for path in folder.glob(f"*{FAILED}")]
    said = [path.read_text(encoding="utf-8").partition("\n")[0] for path in failures]
    return "; ".join([*done, *said]) or "not measured yet"
