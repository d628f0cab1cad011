"""Builds the programs of this folder."""

from __future__ import annotations

from pathlib import Path

from conftest import Installation
from support import TOP, execute, make_folder

SOURCES = Path(__file__).resolve().parent


def compiled(built: Installation, name: str, *options: str) -> Path:
    program = make_folder(f"hazards-{built.library.name}") / name
    command = [str(built.library.mpicc), "-O1", "-pthread", str(SOURCES / f"{name}.c")]
    assert execute([*command, "-o", str(program), *options]).returncode == 0
    return program


def hybrid_program(built: Installation, name: str) -> Path:
    """A program that is linked with the library."""
    folder = str(built.built.library_path.parent)
    options = [f"-I{TOP / 'runtime' / 'include'}", f"-L{folder}", "-lcollforge"]
    return compiled(built, name, *options, f"-Wl,-rpath,{folder}")
