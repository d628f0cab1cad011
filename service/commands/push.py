"""`collforge push`: sends launches, profiles, and what jobs learnt to a service."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlencode

from collforge.db import RunRecord
from collforge.errors import CollforgeError, unknown
from collforge.service import documents
from collforge.service.client import TOKEN_VARIABLE, Client, quoted, read_token
from collforge.service.documents import Push, PushedEpoch, PushedLanes, PushedSystem
from collforge.service.store import ServiceStore
from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.run import learnt
from collforge.tuner.run.options import add_database, input_file

CHUNK_VALUES = 200_000
"""Of a document, about, but for one launch that has more (limits.MOST_VALUES, MOST_DOCUMENT)."""
EXAMPLE = """\
collforge push --server https://tuning.example --token-file ~/.collforge-token --system cluster
  collforge push --server https://tuning.example --system cluster --profile app=calls.csv

Launches that the service has are not sent again, so that a broken push is just repeated."""


def add_server(parser: argparse.ArgumentParser) -> None:
    """Adds --server URL and --token-file FILE."""
    parser.add_argument("--server", metavar="URL", required=True, help="of `collforge serve`")
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        type=input_file,
        help=f"a file with the token, which only you can read (default: ${TOKEN_VARIABLE})",
    )


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers, "push", "send launches and profiles to a service", EXAMPLE, run
    )
    add_server(parser)
    parser.add_argument("--system", metavar="SYS", help="of this system (default: of all)")
    parser.add_argument(
        "--profile",
        metavar="NAME=FILE",
        action="append",
        default=[],
        help="also send what an application calls (COLLFORGE_PROFILE)",
    )
    parser.add_argument(
        "--learnt",
        metavar="DIR",
        action="append",
        default=[],
        type=Path,
        help="also send what jobs learnt (COLLFORGE_LEARN)",
    )
    add_database(parser)


def run(args: argparse.Namespace) -> int:
    client = Client(args.server, read_token(args.token_file))
    profiles = [_profile(text) for text in args.profile]
    if not (args.learnt or profiles) or args.db.exists():
        send(client, args.db, args.system or "", bool(args.learnt or profiles))
    for folder in args.learnt:
        send_learnt(client, args.db, folder)
    for name, file in profiles:
        if not args.system:
            raise CollforgeError("--profile needs --system: where the application ran")
        where = f"/api/v1/profiles/{quoted(name)}?{urlencode({'system': args.system})}"
        client.post(where, file.read_bytes(), "text/csv")
        print(f"{args.system}: profile {name}")
    return 0


def send(client: Client, database: Path, system: str = "", optional: bool = False) -> None:
    """The launches of a system ('': of all). ``optional``: there need not be such a system."""
    with ServiceStore(database, create=False) as store:
        systems = sorted({place.system for place in store.places()})
        if system and system not in systems:
            if optional:
                return
            raise unknown(f"system of {database}", system, systems)
        for one in [system] if system else systems:
            new = sum(
                client.post("/api/v1/runs", document)["new"]
                for document in pushes(store, client, one)
            )
            print(f"{one}: {new} new launches")


def send_learnt(client: Client, database: Path, folder: Path) -> None:
    """The files of COLLFORGE_LEARN; what is none is left out, and told."""
    new = refused = 0
    for found in learnt.read(folder):
        owner = learnt.owner_of(found, database)
        try:
            new += client.post("/api/v1/learnt", found.data, headers={"X-Owner": owner})["new"]
        except CollforgeError as error:
            refused += 1
            print(f"collforge push: {found.path.name}: {error}", file=sys.stderr)
    print(f"{folder}: {new} new files, {refused} refused")


def pushes(store: ServiceStore, client: Client, system: str) -> Iterator[bytes]:
    """The documents with what the service does not have."""
    known = set(documents.uuids(client.get(f"/api/v1/runs/{quoted(system)}").body))
    about = PushedSystem(system, store.host_pattern(system))
    lanes = [PushedLanes(*of, *found) for of, found in store.system_lanes(system).items()]
    epochs = [
        PushedEpoch(at.mpi, at.mpi_version, at.layout, one.collective, one.bytes, one.begins)
        for one in store.epochs(system)
        for at in [one.place]
    ]
    missing = [uuid for uuid in store.uuids(system) if uuid not in known]
    chunks = list(_chunks(store, missing)) or [[]] * bool(epochs)
    for number, runs in enumerate(chunks, 1):
        prints = {one.variant.fingerprint for run in runs for one in run.results}
        sources = {one: store.sources(one) for one in sorted(prints - {""})}
        # Behind the launches since.
        begun = epochs if number == len(chunks) else []
        yield documents.encode(Push(documents.FORMAT, about, runs, lanes, sources, begun))


def _chunks(store: ServiceStore, uuids: Sequence[str]) -> Iterator[list[RunRecord]]:
    chunk: list[RunRecord] = []
    values = 0
    for run in filter(None, map(store.run, uuids)):
        more = sum(10 + len(one.samples) + len(one.start_errors) for one in run.results)
        if chunk and (values + more > CHUNK_VALUES or len(chunk) >= 100):
            yield chunk
            chunk, values = [], 0
        chunk.append(run)
        values += more
    if chunk:
        yield chunk


def _profile(text: str) -> tuple[str, Path]:
    name, _, file = text.partition("=")
    if not name or not Path(file).is_file():
        raise CollforgeError(f"--profile {text}: give NAME=FILE, with a file of COLLFORGE_PROFILE")
    return name, Path(file)
