"""Options that commands and probes share: the MPI library, the database, files to write, lists."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import date, datetime, timezone
from pathlib import Path

from collforge import home
from collforge.db.database import PUBLISHED
from collforge.errors import CollforgeError, unknown
from collforge.mpi_library import MpiLibrary
from collforge.reframe_checks.systems.emulated import RAIL_MODELS, ClusterSpec
from collforge.toolchain import libraries, simgrid

PLOTS = (".png", ".svg", ".pdf")


def add_mpi(
    parser: argparse.ArgumentParser, *, required: bool = False, simulated: bool = True
) -> None:
    """Adds --mpi NAME[,NAME...]; args.mpi is the text, for find_libraries() or libraries.find().

    ``simulated``: whether the command takes SimGrid's libraries, whose programs run in simulations only.
    """
    action = parser.add_argument(
        "--mpi",
        metavar="NAME",
        type=str if simulated else _of_jobs,
        required=required,
        help=f"MPI library: {', '.join(libraries.DEBIAN_PACKAGES)}, "
        "or a name of `collforge mpi list`",
    )
    complete_by(action, libraries.known_names)


def _of_jobs(names: str) -> str:
    for name in split(names):
        if name in simgrid.RULES:
            raise argparse.ArgumentTypeError(
                f"programs of {name} run in simulations only: `collforge bench --system simulated`"
            )
    return names


def complete_by(action: argparse.Action, names: Callable[[], Sequence[str]]) -> None:
    """Shells complete the option by these names (argcomplete)."""
    action.completer = lambda **_: names()  # type: ignore[attr-defined]


def add_database(parser: argparse.ArgumentParser) -> None:
    """Adds --db FILE; args.db is an absolute path."""
    parser.add_argument(
        "--db",
        metavar="FILE",
        type=output_file,
        default=home.database_path(),
        help="database of measurements and winners (default: %(default)s)",
    )


def add_rails(parser: argparse.ArgumentParser) -> None:
    """Adds the options for the links of an emulated cluster."""
    parser.add_argument(
        "--rails",
        type=int,
        metavar="K",
        default=ClusterSpec.rails,
        help="emulated: links of a node (default: %(default)s)",
    )
    parser.add_argument(
        "--rate",
        default=ClusterSpec.rate,
        help="emulated: rate of a link, each way, as for tc(8) (default: %(default)s)",
    )
    parser.add_argument(
        "--rail-model",
        choices=RAIL_MODELS,
        default=ClusterSpec.rail_model,
        help="emulated: ranks tied to rails, or each connection hashed onto one (default: %(default)s)",
    )


STANDARD_OUTPUT = Path("-")


def add_json(parser: argparse.ArgumentParser) -> None:
    """Adds --json FILE; args.json is an absolute path, STANDARD_OUTPUT or None (tables.write_document)."""
    parser.add_argument(
        "--json",
        metavar="FILE",
        type=json_file,
        help="write the facts, with the command and the date; -: to standard output, "
        "and all else to standard error",
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Adds --json FILE and --plot FILE for measured values; each becomes an absolute path or None."""
    add_json(parser)
    parser.add_argument("--plot", metavar="FILE", type=plot_file, help="draw it (.png, .svg, .pdf)")


def output_file(text: str) -> Path:
    """Refuses a file that cannot be written, before minutes are spent on measuring."""
    path = home.full_path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{path} is a folder: name a file")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {path.parent}")
    return path


def json_file(text: str) -> Path:
    """A page_file, or STANDARD_OUTPUT."""
    if text == str(STANDARD_OUTPUT):
        return STANDARD_OUTPUT
    return page_file(text)


def page_file(text: str) -> Path:
    """An output_file. Refuses to write over a database or published winners."""
    path = output_file(text)
    begin = b""
    with suppress(OSError), path.open("rb") as file:
        begin = file.read(64)
    if begin.startswith((b"SQLite format", PUBLISHED)):
        raise argparse.ArgumentTypeError(f"{path} is a database: name another file")
    return path


def plot_file(text: str) -> Path:
    """An output_file with the suffix of a picture that can be drawn."""
    path = output_file(text)
    if path.suffix not in PLOTS:
        raise argparse.ArgumentTypeError(f"{path.name}: give a name with {', '.join(PLOTS)}")
    return path


def input_file(text: str) -> Path:
    """Refuses a file that is not there."""
    path = home.full_path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"there is no file {path}")
    return path


def positive(text: str) -> int:
    """A number from 1 on, as the type of an option."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: give a number, 1 or more")
    return int(text)


def day(text: str) -> date:
    """A date in ISO 8601, as the type of an option."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: give a date, e.g. 2026-01-31") from None


def moment(text: str) -> str:
    """A date of the past, with a time in UTC or not, as the database has them; the type of an option."""
    for pattern in ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ"):
        with suppress(ValueError):
            found = datetime.strptime(text, pattern).replace(tzinfo=timezone.utc)
            if found <= datetime.now(timezone.utc):
                return f"{found:%Y-%m-%dT%H:%M:%SZ}".zfill(len("2026-01-31T20:00:00Z"))
    raise argparse.ArgumentTypeError(
        f"{text}: give a date until now, e.g. 2026-01-31 or 2026-01-31T20:00:00Z (UTC)"
    )


def find_libraries(names: str | None) -> list[MpiLibrary]:
    """The libraries in the comma-separated --mpi; if it is None, all that work on this machine.

    Raises CollforgeError if a library is unknown or missing, or if none works.
    """
    if names is not None:
        return [libraries.find(name) for name in split(names)]
    found = libraries.found()
    if not found:
        packages = " ".join(libraries.DEBIAN_PACKAGES.values())
        raise CollforgeError(f"no MPI library is installed here: run `apt-get install {packages}`")
    return found


def split_choices(what: str, text: str, choices: Collection[str]) -> Sequence[str]:
    """The items of a comma-separated list. Raises CollforgeError for one that is no choice."""
    found = split(text)
    for name in found:
        if name not in choices:
            raise unknown(what, name, choices)
    return found


def split(text: str) -> Sequence[str]:
    """The items of a comma-separated list, blanks and repetitions dropped."""
    return list(dict.fromkeys(item.strip() for item in text.split(",") if item.strip()))
