"""Builds the programs of this folder."""

from __future__ import annotations

from pathlib import Path

from conftest import Installation
from support import execute, make_folder

SOURCES = Path(__file__).resolve().parent


def compiled(built: Installation, name: str, *options: str) -> Path:
    program = make_folder(f"hazards-{built.library.name}") / name
    command = [str(built.library.mpicc), "-O1", "-pthread", str(SOURCES / f"{name}.c")]
    assert execute([*command, "-o", str(program), *options]).returncode == 0
    return program
