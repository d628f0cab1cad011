"""Writes the C sources of all variants, the wrappers, the registry, the oracle and the manifest."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import jinja2

import collforge
import collforge.templates
from collforge.errors import CollforgeError

from . import load
from .cview import block_argument, view
from .describe import describe
from .expand import expand
from .fortran import hybrid_routines, routines
from .large import large_functions
from .manifest import Manifest
from .model import Collective, Specs, Variant
from .proof import prove

TEMPLATES = Path(collforge.templates.__file__).parent
STYLE = Path(collforge.templates.__file__).parent / "clang-format.yaml"
# Part of every fingerprint: raised when the meaning of a generated variant changes with the runtime under it.
RUNTIME_INTERFACE = 2

_ORACLE_FIELDS = {
    "in_blocks": ("rank", "root", "size"),
    "out_blocks": ("rank", "root", "size"),
    "first": ("rank", "block", "root", "size"),
    "last": ("rank", "block", "root", "size"),
    "source_block": ("rank", "block", "root", "size"),
    "in_place_block": ("rank", "root", "size"),
}


def generate(out: Path, specs_root: Path = load.SPECS, templates: Path = TEMPLATES) -> Manifest:
    """Generates everything into ``out``; files that would not change keep their time stamps.

    Every composition is proven first. Raises CollforgeError (SpecError, ProofError, ...) for what is wrong
    in the specs or templates, and then leaves ``out`` as it was.
    """
    specs = load.load_specs(specs_root)
    variants = expand(specs)
    for variant in variants:
        prove(variant)
    try:
        files, manifest = _render(specs, variants, _environment(templates))
    except jinja2.TemplateError as error:
        place = f"{getattr(error, 'name', None) or templates}"
        raise CollforgeError(f"template {place}: {error}; mend the template or the spec") from error
    _write(out, files)
    return manifest


def _render(
    specs: Specs, variants: list[Variant], environment: jinja2.Environment
) -> tuple[dict[str, str], Manifest]:
    version = collforge.__version__
    shared = {
        "version": version,
        "collectives": list(specs.collectives.values()),
        "standard": specs.standard,
        "hybrid": specs.hybrid,
        "variants": variants,
        "limits": sorted(
            {(v.family.name, p.name, p.below) for v in variants for p in v.parameters if p.below}
        ),
    }
    names = [f"variants/{variant.name}.c" for variant in variants]
    texts = [
        environment.get_template(f"families/{variant.family.name}.c.j2").render(
            version=version, **view(variant)
        )
        for variant in variants
    ]
    texts = _format(texts)
    fingerprints = {}
    files: dict[str, str] = {}
    for variant, name, text in zip(variants, names, texts):
        fingerprint = hashlib.sha256(f"{RUNTIME_INTERFACE}{text}".encode()).hexdigest()[:16]
        fingerprints[variant.name] = fingerprint
        files[name] = text.replace("@FINGERPRINT@", fingerprint)
    manifest = describe(specs, variants, fingerprints, version)
    common = (
        "collectives.h",
        "wrappers.c",
        "wrappers_fortran.c",
        "wrappers_large.c",
        "hybrid.c",
        "registry.c",
        "oracle.c",
        "calls.c",
        "overhead.c",
    )
    rendered = [
        environment.get_template(f"{name}.j2").render(fingerprint=manifest.fingerprint, **shared)
        for name in common
    ]
    files.update(zip(common, _format(rendered)))
    module = environment.get_template("collforge_hybrid.f90.j2")
    files["collforge_hybrid.f90"] = module.render(**shared)
    files["manifest.json"] = manifest.to_json()
    return files, manifest


def _environment(templates: Path) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([templates, TEMPLATES]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters.update(
        comment=_comment,
        comment_tail=lambda text: _comment(text, first=10).replace(" * ", "", 1),
        formals=lambda c: ", ".join(f"{a.ctype} {a.name}".replace("* ", "*") for a in c.arguments),
        choose=_choose,
        fortran_routines=routines,
        hybrid_routines=hybrid_routines,
        large_functions=lambda known: large_functions(known, _FIELDS, _choose),
        initializer=_initializer,
        from_args=_from_args,
        part=_part,
        part_unused=lambda c: [n for n in _PLACES if all(n not in text for _, text in _part(c))],
        plain_arguments=lambda c: ", ".join(_PLAIN[a.role] for a in c.arguments),
        oracle_functions=lambda c: [(field, getattr(c.result, field)) for field in _ORACLE_FIELDS],
        oracle_formals=lambda field: ", ".join(f"int {n}" for n in _ORACLE_FIELDS[field]),
        oracle_unused=lambda field, e: [n for n in _ORACLE_FIELDS[field] if n not in e.names],
        to_c=lambda e: e.to_c({name: name for name in e.names}),
    )
    return environment


def _comment(text: str, first: int = 0) -> str:
    lines = textwrap.wrap(" " * first + text, 96)
    return "\n".join(f" * {line.strip()}" for line in lines)


def _choose(collective: Collective, function: str = "cf_choose") -> str:
    """The C call that chooses, by what the standard makes known alike on all ranks."""
    which = f"CF_{collective.name.upper()}, comm"
    if collective.sized == "none":
        return f"{function}_unsized({which})"
    if collective.sized == "mean":
        counts, datatype = (block_argument(collective, what, False) for what in ("counts", "type"))
        return f"{function}_mean({which}, {counts}, {datatype})"
    count, datatype = (block_argument(collective, what, False) for what in ("count", "type"))
    guard = _in_place_guard(collective)
    if guard:
        # Where this rank is in place, its block's size stands on the other side.
        count = f"{guard} ? {block_argument(collective, 'count', True)} : {count}"
        datatype = f"{guard} ? {block_argument(collective, 'type', True)} : {datatype}"
    return f"{function}({which}, {count}, {datatype})"


def _in_place_guard(collective: Collective) -> str:
    if collective.in_place == "send_root" and not collective.has_op:
        return "sendbuf == MPI_IN_PLACE"
    return "recvbuf == MPI_IN_PLACE" if collective.in_place == "recv_root" else ""


_FIELDS = {
    "buffer": ("recvbuf",),
    "send_buffer": ("sendbuf",),
    "recv_buffer": ("recvbuf",),
    "count": ("sendcount", "recvcount"),
    "send_count": ("sendcount",),
    "recv_count": ("recvcount",),
    "counts": ("recvcounts",),
    "send_counts": ("sendcounts",),
    "recv_counts": ("recvcounts",),
    "send_displs": ("sdispls",),
    "recv_displs": ("rdispls",),
    "datatype": ("sendtype", "recvtype"),
    "send_type": ("sendtype",),
    "recv_type": ("recvtype",),
    "op": ("op",),
    "root": ("root",),
    "comm": ("comm",),
    "hybrid": (),
}

# What a plain call of a collective passes (templates/calls.c.j2).
_PLAIN = {
    "buffer": "receive",
    "send_buffer": "send",
    "recv_buffer": "receive",
    **dict.fromkeys(("count", "send_count", "recv_count"), "count"),
    **dict.fromkeys(("counts", "send_counts", "recv_counts"), "counts"),
    **dict.fromkeys(("send_displs", "recv_displs"), "displs"),
    **dict.fromkeys(("datatype", "send_type", "recv_type"), "MPI_DOUBLE"),
    "op": "MPI_SUM",
    "root": "0",
    "comm": "MPI_COMM_WORLD",
}


def _initializer(collective: Collective) -> str:
    pairs = [(field, a.name) for a in collective.arguments for field in _FIELDS[a.role]]
    return ", ".join(f".{field} = {name}" for field, name in pairs)


def _from_args(collective: Collective) -> str:
    return ", ".join(f"args->{_FIELDS[a.role][-1]}" for a in collective.arguments)


_PLACES = ("rank", "root", "size")


def _part(collective: Collective) -> list[tuple[str, str]]:
    """The fields of struct cf_part in C. What a rank gets by an empty combination is nothing."""
    result = collective.result
    names = {**{name: name for name in _PLACES}, "block": "0"}
    first, last = result.first.to_c(names), result.last.to_c(names)
    blocks = result.out_blocks.to_c(names)
    return [
        ("in_blocks", result.in_blocks.to_c(names)),
        ("out_blocks", f"({first}) < ({last}) ? ({blocks}) : 0"),
        ("in_place_block", result.in_place_block.to_c(names)),
    ]


def _format(texts: list[str]) -> list[str]:
    """clang-format, so that the generated C reads as if handwritten."""
    tidy = [re.sub(r"\n{3,}", "\n\n", text) for text in texts]
    return [_run_clang_format(text) for text in tidy]


def _run_clang_format(text: str) -> str:
    program = Path(sys.executable).with_name("clang-format")
    command = str(program) if program.exists() else "clang-format"
    try:
        done = subprocess.run(
            [command, f"--style=file:{STYLE}", "--assume-filename=generated.c"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    except FileNotFoundError:
        raise CollforgeError("clang-format is missing; run: pip install clang-format") from None
    except subprocess.CalledProcessError as error:
        raise CollforgeError(f"clang-format failed: {error.stderr.strip()}") from error
    return done.stdout


def _write(out: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    for stale in (out / "variants").glob("*.c"):
        if f"variants/{stale.name}" not in files:
            stale.unlink()
