"""`collforge pull`: fetches the published winners of a system from a service."""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from urllib.parse import urlencode

from collforge.db.published import counts
from collforge.errors import CollforgeError
from collforge.service.client import Client, quoted, read_token
from collforge.service.commands.push import add_server
from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.run.options import output_file
from collforge.tuner.site import install_tree, publishing

EXAMPLE = """\
collforge pull --server https://tuning.example --system cluster --output /apps/collforge/winners.txt

For cron: it changes nothing, and exits with 0, if the winners are those of before. A job that starts meanwhile
reads the old file or the new one. FILE.sha256 has the checksum."""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers, "pull", "fetch the published winners of a system from a service", EXAMPLE, run
    )
    add_server(parser)
    parser.add_argument("--system", metavar="SYS", required=True, help="whose winners")
    parser.add_argument("--mpi", metavar="NAME", default="", help="of this MPI library only")
    parser.add_argument(
        "--output", metavar="FILE", required=True, type=output_file, help="the file to write"
    )


def run(args: argparse.Namespace) -> int:
    install_tree.check_outside(args.output)
    fetch(Client(args.server, read_token(args.token_file)), args.system, args.output, args.mpi)
    return 0


def fetch(client: Client, system: str, output: Path, mpi: str = "") -> None:
    """Swaps the file for the published winners of a system, if they are others. mpi '': of all libraries."""
    had = stored_digest(output)
    query = f"?{urlencode({'mpi': mpi})}" if mpi else ""
    answer = client.get(
        f"/api/v1/winners/{quoted(system)}{query}",
        {"If-None-Match": f'"{had}"'} if had else {},
    )
    if answer.status == 304:
        print(f"{output}: unchanged")
        return
    digest = hashlib.sha256(answer.body).hexdigest()
    if digest != answer.headers.get("x-collforge-sha256"):
        raise CollforgeError(f"{client.server}: what came is not what was sent: pull again")
    counts(answer.body.decode())  # a part of a file, or another format
    publishing.write_published(output, answer.body)
    print(f"{output}: {len(answer.body)} bytes")
    print(f"{digest}  {output}")


def stored_digest(path: Path) -> str:
    """That of FILE, if FILE.sha256 says the same; else '', and the file is fetched anew."""
    try:
        said = path.with_name(f"{path.name}.sha256").read_text(encoding="utf-8").split()[:1]
        return said[0] if [hashlib.sha256(path.read_bytes()).hexdigest()] == said else ""
    except (OSError, UnicodeDecodeError):
        return ""
