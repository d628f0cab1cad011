"""Compiles the conformance program: its C sources and the table generated from the collective specs."""

from __future__ import annotations

from pathlib import Path

import jinja2
from support import execute

from collforge.generator.in_c.wrappers import from_args, nonblocking
from collforge.generator.load import SPECS, load_specs
from collforge.generator.model import Collective
from collforge.generator.render import TEMPLATES
from collforge.generator.roles import members, plain_values

HERE = Path(__file__).resolve().parent
FLAGS = ["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-g", "-O1", "-pthread"]
FLAGS += ["-Wall", "-Wextra", "-Wmissing-prototypes", "-Werror"]

# The arguments of the functions that describe a collective's result.
FIELDS = {
    "in_blocks": ("rank", "root", "size"),
    "out_blocks": ("rank", "root", "size"),
    "first": ("rank", "block", "root", "size"),
    "last": ("rank", "block", "root", "size"),
    "source_block": ("rank", "block", "root", "size"),
    "in_place_block": ("rank", "root", "size"),
}


def compile_program(mpicc: str, folder: Path) -> Path:
    """Generates and compiles into folder; returns the program's path."""
    table = folder / "collectives.c"
    for name, text in render_tables().items():
        (folder / name).write_text(text, encoding="utf-8")
    target = folder / "conformance"
    sources = [str(table), *map(str, sorted(HERE.glob("*.c")))]
    command = [
        mpicc,
        *FLAGS,
        f"-I{HERE}",
        f"-I{folder}",
        *sources,
        "-o",
        str(target),
        "-ldl",
        "-lm",
    ]
    done = execute(command, timeout=300)
    assert done.returncode == 0, done.stderr
    return target


def compile_faulty(mpicc: str, folder: Path) -> Path:
    """A library with faults (faults/faulty.c), to test that the checks detect them."""
    target = folder / "faulty.so"
    source = HERE / "faults" / "faulty.c"
    command = [mpicc, *FLAGS, "-fPIC", "-shared", str(source), "-o", str(target)]
    done = execute(command, timeout=300)
    assert done.returncode == 0, done.stderr
    return target


def render_tables(root: Path = SPECS) -> dict[str, str]:
    """The generated files, from the specs in a folder."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([HERE, TEMPLATES]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    environment.filters.update(
        from_args=from_args, nonblocking=nonblocking, flags=_flags, result=_result
    )
    specs = load_specs(root)
    values = {
        "version": "for the conformance program",
        "members": members(specs.roles.values()),
        "plain_values": plain_values(specs.roles.values()),
        "collectives": specs.standard,
        "fields": FIELDS,
    }
    names = ("arguments.h", "collectives.c")
    return {name: environment.get_template(f"{name}.j2").render(values) for name in names}


def _result(collective: Collective, field: str) -> str:
    expression = getattr(collective.result, field)
    return str(expression.to_c({name: name for name in expression.names}))


def _flags(collective: Collective) -> dict[str, bool]:
    result = collective.result
    own_rank = "rank" in result.first.names | result.last.names
    return {
        "rooted": collective.rooted,
        "reduces": collective.has_op,
        "single_buffer": collective.single_buffer,
        "single_type": collective.has("datatype"),
        "moves_nothing": collective.moves_nothing,
        "prefix": collective.has_op and own_rank,
        "send_displs": collective.sets("sdispls"),
        "recv_displs": collective.sets("rdispls"),
        "send_counts": collective.sets("sendcounts"),
        "recv_counts": collective.sets("recvcounts"),
    }
