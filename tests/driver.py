"""Runs the timing driver on case strings and reads its records; builds drivers with other variants."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conftest import Installation
from support import TOP, execute

RANKS = 2
PAIRS = {"COLLFORGE_NODE_MAP": "2"}  # layout 1x2 with two ranks, 2x2 with four

Driver = Callable[..., "tuple[int, list[dict[str, Any]], str]"]


def read_records(text: str) -> list[dict[str, Any]]:
    """The records of the JSON lines; the job's comes first, the end's last."""
    records = [json.loads(line) for line in text.splitlines()]
    assert records[0]["record"] == "job"
    assert records[-1]["record"] == "end"
    results = records[1:-1]
    assert all(r["record"] == "result" for r in results)
    assert records[-1]["cases"] == len(results)
    return records


def make_driver(mpi: str, program: Path, folder: Path, launch: Any) -> Driver:
    """driver(cases, *options, ranks, NAME=value): the exit code, the records, standard error."""

    def run(
        cases: list[str], *options: str, ranks: int = RANKS, **more: str
    ) -> tuple[int, list[dict[str, Any]], str]:
        listed, output = folder / "cases", folder / "output"
        listed.write_text("".join(f"{case}\n" for case in cases))
        output.unlink(missing_ok=True)
        argv = [str(program), "--cases", str(listed), "--output", str(output), *options]
        done = launch(mpi, ranks, argv, env={**PAIRS, **more}, timeout=90)
        text = output.read_text() if output.exists() else ""
        ended = done.returncode == 0 or '"record":"end"' in text
        return done.returncode, read_records(text) if ended else [], done.stderr

    return run


def progress(built: Installation) -> dict[str, str]:
    """The variables with which nonblocking cases can be run: MPICH 4.0.2 needs a thread.

    That gives MPI_THREAD_MULTIPLE, and the driver has OpenMP: one thread keeps the layout's name.
    """
    if built.library.flavor != "mpich":
        return {}
    names = {"COLLFORGE_NONBLOCKING": "1", "COLLFORGE_PROGRESS": "thread"}
    return {**names, "OMP_NUM_THREADS": "1"}


def results_by_variant(records: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {r["variant"]: r for r in records if r["record"] == "result"}


def build_driver(built: Installation, code: str, variants: list[str], folder: Path) -> Path:
    """A driver, below ``folder``, with the variants in ``code`` instead of the generated ones."""
    generated, runtime = built.home / "generated", TOP / "runtime"
    text = (generated / "registry.c").read_text()
    start, end = (
        text.index("const struct cf_variant *const"),
        text.index("const char cf_fingerprint"),
    )
    listed = ", ".join(f"&{name}" for name in variants)
    own = f"{code}\nconst struct cf_variant *const cf_variants[] = {{{listed}}};\n"
    own += f"const int cf_nvariants = {len(variants)};\n"
    registry, program = folder / "registry.c", folder / "collforge-driver"
    registry.write_text(text[:start] + own + text[end:])
    obj = built.home / built.library.name / "obj"
    objects = [
        name
        for name in (obj / "driver.list").read_text().split()
        if not name.startswith((f"{obj}/generated/variants/", f"{obj}/generated/registry.o"))
    ]
    flags = ["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-g", "-O1", "-Wall", "-Wextra", "-Werror"]
    flags += [
        f"-I{at}" for at in (*(runtime / one for one in ("include", "src", "bench")), generated)
    ]
    command = [str(built.library.mpicc), *flags, str(registry), *objects, "-o", str(program)]
    done = execute([*command, "-pthread", "-ldl", "-lm", "-lgomp"], timeout=300)
    assert done.returncode == 0, done.stderr
    return program
