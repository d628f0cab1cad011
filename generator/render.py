"""Writes the C sources of all variants, the wrappers, the registry, the oracle and the manifest."""

from __future__ import annotations

import re
import subprocess
import textwrap
from pathlib import Path

import jinja2

import collforge
import collforge.templates
from collforge.errors import CollforgeError

from . import fingerprint, load, roles, tools
from .describe import describe
from .expand import expand
from .in_c import large, wrappers
from .in_c.fortran import hybrid_routines, routines
from .in_c.variant import view
from .manifest import Manifest
from .model import Specs, Variant
from .proof import prove

TEMPLATES = Path(collforge.templates.__file__).parent
STYLE = Path(collforge.templates.__file__).parent / "clang-format.yaml"

_ORACLE_FIELDS = {
    "in_blocks": ("rank", "root", "size"),
    "out_blocks": ("rank", "root", "size"),
    "first": ("rank", "block", "root", "size"),
    "last": ("rank", "block", "root", "size"),
    "source_block": ("rank", "block", "root", "size"),
    "in_place_block": ("rank", "root", "size"),
}


def generate(out: Path, specs_root: Path = load.SPECS, templates: Path = TEMPLATES) -> Manifest:
    """Generates everything into ``out``. Unchanged files keep their time stamps.

    Every composition is proven first. Raises CollforgeError (SpecError, ProofError, ...) for errors in the
    specs or templates; ``out`` is then unchanged.
    """
    specs = load.load_specs(specs_root)
    variants = expand(specs)
    for variant in variants:
        prove(variant)
    try:
        files, manifest = _render(specs, variants, _environment(templates))
    except jinja2.TemplateError as error:
        place = f"{getattr(error, 'name', None) or templates}"
        raise CollforgeError(f"template {place}: {error}; fix the template or the spec") from error
    _write(out, files)
    return manifest


def _render(
    specs: Specs, variants: list[Variant], environment: jinja2.Environment
) -> tuple[dict[str, str], Manifest]:
    version = collforge.__version__
    shared = {
        "version": version,
        "members": roles.members(specs.roles.values()),
        "plain_values": roles.plain_values(specs.roles.values()),
        "collectives": list(specs.collectives.values()),
        "algorithms": list(specs.algorithms.values()),
        "standard": specs.standard,
        "hybrid": specs.hybrid,
        "variants": variants,
        "limits": sorted(
            {(v.family.name, p.name, p.below) for v in variants for p in v.parameters if p.below}
        ),
    }
    names = [f"variants/{variant.name}.c" for variant in variants]
    texts = [_variant(environment, variant, version) for variant in variants]
    header = environment.get_template("lane_algorithms.h.j2").render(**shared)
    sources = fingerprint.Sources({**fingerprint.runtime_sources(), "lane_algorithms.h": header})
    parts = {v.name: sources.parts(text) for v, text in zip(variants, texts)}
    manifest = describe(specs, variants, parts, version)
    files = {
        name: text.replace("@FINGERPRINT@", entry.fingerprint)
        for entry, name, text in zip(manifest.variants, names, _format(texts))
    }
    common = (
        "arguments.h",
        "collectives.h",
        "wrappers.c",
        "wrappers_fortran.c",
        "wrappers_large.c",
        "wrappers_nonblocking.c",
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
    files.update(zip((*common, "lane_algorithms.h"), _format([*rendered, header])))
    module = environment.get_template("collforge_hybrid.f90.j2")
    files["collforge_hybrid.f90"] = module.render(**shared)
    files["manifest.json"] = manifest.to_json()
    return files, manifest


def variant_text(variant: Variant, version: str) -> str:
    """The C source of a variant, formatted; @FINGERPRINT@ stands for its fingerprint."""
    return _format([_variant(_environment(TEMPLATES), variant, version)])[0]


def _variant(environment: jinja2.Environment, variant: Variant, version: str) -> str:
    """The C source of a variant. Its family may have its own template, which extends variant.c.j2."""
    names = [f"families/{variant.family.name}.c.j2", "variant.c.j2"]
    template = environment.select_template(names)
    return template.render(version=version, template=template.name, **view(variant))


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
        choose=wrappers.choose,
        count=wrappers.count,
        starting=wrappers.starting,
        have_nonblocking=wrappers.have_nonblocking,
        nonblocking=wrappers.nonblocking,
        is_native=wrappers.is_native,
        fortran_routines=routines,
        hybrid_routines=hybrid_routines,
        have_large_form=lambda known: [one for one in known if large.has_large_form(one)],
        large_formals=large.large_formals,
        large_initializer=large.large_initializer,
        large_counts=large.large_counts,
        large_values=large.large_values,
        from_large=large.from_large,
        initializer=wrappers.initializer,
        from_args=wrappers.from_args,
        part=wrappers.part,
        part_unused=wrappers.part_unused,
        plain_arguments=wrappers.plain_arguments,
        oracle_functions=lambda c: [(field, getattr(c.result, field)) for field in _ORACLE_FIELDS],
        oracle_formals=lambda field: ", ".join(f"int {n}" for n in _ORACLE_FIELDS[field]),
        oracle_unused=lambda field, e: [n for n in _ORACLE_FIELDS[field] if n not in e.names],
        to_c=lambda e: e.to_c({name: name for name in e.names}),
    )
    return environment


def _comment(text: str, first: int = 0) -> str:
    lines = textwrap.wrap(" " * first + text, 96)
    return "\n".join(f" * {line.strip()}" for line in lines)


def _format(texts: list[str]) -> list[str]:
    """Formats C texts with clang-format if it is installed."""
    command = tools.formatter()
    tidy = [re.sub(r"\n{3,}", "\n\n", text) for text in texts]
    return [_run(command, text) for text in tidy] if command else tidy


def _run(command: str, text: str) -> str:
    try:
        done = subprocess.run(
            [command, f"--style=file:{STYLE}", "--assume-filename=generated.c"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
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
