"""`collforge generate`: the C sources and the manifest."""

from __future__ import annotations

import argparse
from pathlib import Path

from collforge import home
from collforge.toolchain import build
from collforge.tuner.cli.command import Subparsers, add_command


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "generate",
        "write the C sources of all variants and their manifest.json",
        "collforge generate --output generated",
        run,
    )
    parser.add_argument(
        "--output",
        metavar="DIR",
        type=Path,
        default=build.generated_folder(home.home()),
        help="folder to write to; only what changes is written (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    manifest = build.generate(args.output.absolute())
    print(
        f"{len(manifest.variants)} variants of {len(manifest.collectives)} collectives, "
        f"fingerprint {manifest.fingerprint}, in {args.output}"
    )
    return 0
