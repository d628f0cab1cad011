"""Compiles the conformance program: its C sources and the table generated from the collective specs."""

from __future__ import annotations

from pathlib import Path

import jinja2
from support import execute

from collforge.generator.load import load_specs
from collforge.generator.model import Collective

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
# role of an argument -> the member of struct arguments that is passed for it
MEMBERS = {
    "buffer": "recvbuf",
    "send_buffer": "sendbuf",
    "recv_buffer": "recvbuf",
    "count": "recvcount",
    "send_count": "sendcount",
    "recv_count": "recvcount",
    "counts": "recvcounts",
    "send_counts": "sendcounts",
    "recv_counts": "recvcounts",
    "send_displs": "sdispls",
    "recv_displs": "rdispls",
    "datatype": "recvtype",
    "send_type": "sendtype",
    "recv_type": "recvtype",
    "op": "op",
    "root": "root",
    "comm": "comm",
}


def compile_program(mpicc: str, folder: Path) -> Path:
    """Generates and compiles into folder; returns the program's path."""
    table = folder / "collectives.c"
    table.write_text(render_table(), encoding="utf-8")
    target = folder / "conformance"
    sources = [str(table), *map(str, sorted(HERE.glob("*.c")))]
    command = [mpicc, *FLAGS, f"-I{HERE}", *sources, "-o", str(target), "-ldl", "-lm"]
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


def render_table() -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    environment.filters.update(call_arguments=_call_arguments, flags=_flags, result=_result)
    collectives = load_specs().standard
    template = environment.get_template("collectives.c.j2")
    return template.render(collectives=collectives, fields=FIELDS)


def _call_arguments(collective: Collective) -> str:
    return ", ".join(f"a->{MEMBERS[argument.role]}" for argument in collective.arguments)


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
        "send_displs": collective.has("send_displs"),
        "recv_displs": collective.has("recv_displs"),
        "send_counts": collective.has("send_counts"),
        "recv_counts": collective.has("recv_counts") or collective.has("counts"),
    }
