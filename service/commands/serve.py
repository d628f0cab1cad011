"""`collforge serve`: the service of a fleet of clusters, and the tokens of those who use it."""

from __future__ import annotations

import argparse
import fcntl
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO

from collforge.errors import CollforgeError
from collforge.service import tokens
from collforge.service.documents import name as checked_name
from collforge.service.queue import now
from collforge.service.store import ServiceStore
from collforge.service.tokens import ALL, ROLES, Token
from collforge.toolchain import build
from collforge.tuner.cli.command import Subparsers, add_command
from collforge.tuner.run.options import add_database
from collforge.tuner.site.rebuild import Rules

EXTRA = "pip install 'collforge[service]'"
PORT = 8642
SWITCH_SECONDS = 0.0005
"""After which the interpreter lets another thread run: deciding must not keep readers waiting."""
MOST_REQUESTS = 500
"""At once; more are told to come again."""
EXAMPLE = """\
collforge serve --db fleet.db
  collforge serve token --db fleet.db add nightly --role push --system cluster

One process, one file. It speaks HTTP on this machine only; others reach it through a reverse proxy with TLS
(docs/service.md)."""
TOKEN = """\
collforge serve token --db fleet.db add nightly --role push --system cluster
  collforge serve token --db fleet.db list
  collforge serve token --db fleet.db revoke nightly

read: pages and winners of a service with --private; push: also sends launches, findings and profiles; admin:
also acknowledges findings and reads the audit log. A token is printed once; the database has its SHA-256."""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers, "serve", "the service of a fleet: pages, pushes, winners, a queue", EXAMPLE, run
    )
    add_database(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address (default: %(default)s)")
    parser.add_argument(
        "--port", type=_port, default=PORT, help="default: %(default)s; 0: a free one"
    )
    parser.add_argument(
        "--proxy",
        metavar="ADDRESS",
        default="127.0.0.1",
        help="of the reverse proxy, which tells the addresses of clients (default: %(default)s; *: any)",
    )
    parser.add_argument(
        "--private", action="store_true", help="reading needs a token, too (default: pushing only)"
    )
    kinds = parser.add_subparsers(metavar="[token]")
    token = add_command(kinds, "token", "who may use the service", TOKEN)
    _add_database(token)
    actions = token.add_subparsers(metavar="ACTION", required=True)
    add = add_command(actions, "add", "make a token, and print it once", TOKEN, run_add)
    add.add_argument("name", metavar="NAME")
    add.add_argument("--role", choices=ROLES, required=True)
    add.add_argument(
        "--system", metavar="SYS", action="append", help="only for this one (default: all)"
    )
    listed = add_command(actions, "list", "the tokens, without their secrets", TOKEN, run_list)
    revoke = add_command(actions, "revoke", "make a token invalid at once", TOKEN, run_revoke)
    revoke.add_argument("name", metavar="NAME")
    for each in (add, listed, revoke):
        _add_database(each)


def _port(text: str) -> int:
    """The type of an option."""
    number = int(text)
    if not 0 <= number < 1 << 16:
        raise ValueError(text)
    return number


def _add_database(parser: argparse.ArgumentParser) -> None:
    """--db of a command of a command: what is not given there is that of the outer one."""
    add_database(parser)
    for action in parser._actions:
        if action.dest == "db":
            action.default = argparse.SUPPRESS
            action.help = "the database of the service"


def run(args: argparse.Namespace) -> int:
    try:
        import uvicorn

        from collforge.service import site
        from collforge.service.connections import Connection
        from collforge.service.service import Service
    except ImportError as error:
        raise CollforgeError(f"the service needs {error.name}: {EXTRA}") from error
    rules = Rules(build.current_manifest())
    lock = _only_one(args.db)
    service = Service(args.db, lambda: rules, args.private)
    threading.Thread(target=service.warm, name="warming", daemon=True).start()
    sys.setswitchinterval(SWITCH_SECONDS)
    config = uvicorn.Config(
        site.make(service),
        host=args.host,
        port=args.port,
        http=Connection,
        forwarded_allow_ips=args.proxy,
        log_level="warning",
        limit_concurrency=MOST_REQUESTS,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=10,
        server_header=False,
        date_header=True,
    )
    listening = config.bind_socket()
    port = listening.getsockname()[1]
    print(f"serving {args.db} at http://{args.host}:{port}/", flush=True)
    with suppress(KeyboardInterrupt):  # it has ended in order, and raises the signal anew
        uvicorn.Server(config).run([listening])
    lock.close()
    return 0


def _only_one(database: Path) -> IO[str]:
    """Open while this process serves the database. Raises CollforgeError if another one does."""
    database.parent.mkdir(parents=True, exist_ok=True)
    lock = database.with_name(f"{database.name}.serving").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise CollforgeError(
            f"another `collforge serve` has {database}: stop it, or name another file with --db"
        ) from None
    return lock


def run_add(args: argparse.Namespace) -> int:
    secret = tokens.new_token()
    systems = tuple(args.system or [ALL])
    for one in (args.name, *systems):
        checked_name(one, "a token's name or system", 200)
    made = Token(args.name, tokens.digest(secret), args.role, systems, now(), "", "")
    with ServiceStore(args.db) as store, store.transaction():
        if not store.add_token(made):
            raise CollforgeError(f"there is a token {args.name}: take another name")
        store.note("", "token add", ",".join(systems), f"{args.name}: {args.role}")
    print(secret)
    print(f"keep it: it is shown only now; it may {args.role}", file=sys.stderr)
    return 0


def run_list(args: argparse.Namespace) -> int:
    with ServiceStore(args.db, create=False) as store:
        for one in store.tokens():
            state = f"revoked {one.revoked}" if one.revoked else f"used {one.used or 'never'}"
            print(f"{one.name}: {one.role}, {','.join(one.systems)}, made {one.created}, {state}")
    return 0


def run_revoke(args: argparse.Namespace) -> int:
    with ServiceStore(args.db, create=False) as store, store.transaction():
        if not store.revoke_token(args.name):
            raise CollforgeError(
                f"there is no valid token {args.name}: see `collforge serve token list`"
            )
        store.note("", "token revoke", "", args.name)
    print(f"revoked: {args.name}")
    return 0
