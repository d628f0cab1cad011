"""Builds the programs of this folder, and runs several of them in one launch (tests/c/suite.c)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from conftest import Installation
from support import TOP, compile_once, launch_local

SOURCES = Path(__file__).resolve().parent
C = SOURCES.parent / "c"
HEADERS = [*SOURCES.glob("*.h"), *(TOP / "runtime" / "include").glob("*.h"), C / "suite.h"]
PMPI = [f"-DMPI_Comm_{name}=PMPI_Comm_{name}" for name in ("free", "disconnect", "idup")]


def compiled(built: Installation, name: str, *options: str) -> Path:
    """``name``: of a source in this folder, or the path of one without its suffix."""
    source = SOURCES / f"{name}.c"
    command = [built.library.mpicc, "-O1", "-pthread", f"-I{TOP / 'runtime' / 'include'}"]
    return compile_once(source.stem, [*command, source, *options], source, *HEADERS)


def hybrid_program(built: Installation, name: str) -> Path:
    """A program that is linked with the library."""
    folder = built.built.library_path.parent
    options = ["-Wl,--no-as-needed", f"-L{folder}", "-lcollforge", f"-Wl,-rpath,{folder}"]
    return compiled(built, name, *options)


@dataclass(frozen=True)
class Said:
    """What the ranks of a case wrote."""

    out: str
    err: str


def run_cases(
    built: Installation,
    ranks: int,
    cases: Sequence[str],
    env: Mapping[str, str],
    linked: bool = False,
    threads: bool = False,
    before: Sequence[str] = (),
) -> list[Said]:
    """Runs the cases in turn in one launch with the library; returns what each has said.

    A case is a program and its words; `PMPI` before it lets it free and duplicate communicators by these names.
    ``linked``: with the library, which is preloaded else. ``threads``: at MPI_THREAD_MULTIPLE. If a case ends
    the launch, the assertion names it; if the launch does not end in time, the last case in the output hangs.
    """
    suite = (hybrid_program if linked else compiled)(built, str(C / "suite"))
    argv = [str(suite), "multiple" if threads else "single"]
    part = ["-shared", "-fPIC", "-D_GNU_SOURCE=", "-include", str(C / "suite.h")]
    for number, case in enumerate(cases):
        name, *words = case.removeprefix("PMPI ").split()
        own = [*part, *(PMPI if case.startswith("PMPI ") else [])]
        argv += [*([","] if number else []), str(compiled(built, name, *own)), *words]
    preload = {} if linked else {"LD_PRELOAD": str(built.built.library_path)}
    variables = {**preload, "COLLFORGE_VERBOSE": "1", "COLLFORGE_SPLIT_OPS": "1", **env}
    done = launch_local(built.library.name, ranks, argv, variables, before=before)
    begin = re.compile("^case: .*\n", re.MULTILINE)
    out, err = begin.split(done.stdout)[1:], begin.split(done.stderr)[1:]
    ended = (len(out), done.returncode) == (len(cases), 0)
    assert ended, f"in {cases[max(len(out) - 1, 0)]!r} or at its end: {done.stderr}"
    if "COLLFORGE_FORCE" in env:
        assert re.search(r"collforge: version \S+, [1-9]\d* winners", done.stderr)
    return [Said(*texts) for texts in zip(out, err)]


def pass_cases(
    built: Installation,
    ranks: int,
    cases: Sequence[str],
    env: Mapping[str, str],
    linked: bool = False,
    threads: bool = False,
) -> list[Said]:
    """As run_cases; each case must pass."""
    said = run_cases(built, ranks, cases, env, linked=linked, threads=threads)
    failed = {case: one for case, one in zip(cases, said) if one.out != "passed\n"}
    assert not failed, failed
    return said
