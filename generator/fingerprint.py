"""The fingerprint of a variant: a hash over its C code and over the runtime's C code that it uses.

Every name that a definition mentions is followed, from the variant's functions down into runtime/src.
Comments, layout, prototypes, types and the parameter values that a search tries are ignored. Names in the
rooms ``OPAQUE`` are not followed, because their code does not affect results.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

OPAQUE = ("base", "device", "serve", "start", "winners")
ROOTS = ("applicable", "prepare", "run")
"""The functions in a variant's file at which the fingerprint starts."""

_TOKEN = re.compile(
    r"(?P<skip>//[^\n]*|/\*.*?\*/|\s+)"
    r"|(?P<define>^[ \t]*\#[ \t]*define[ \t]+(?P<macro>\w+)(?:[^\n]*\\\n)*[^\n]*)"
    r"|(?P<directive>^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*)"
    r"|(?P<text>\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*')"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<other>\d[\w.]*|->|\S)",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Definition:
    """A function, variable, macro or enumeration: its file and its tokens."""

    source: str
    tokens: tuple[str, ...]


Known = dict[str, list[Definition]]


def runtime_sources() -> dict[str, str]:
    """The text of each file of runtime/src outside the rooms ``OPAQUE``, by its path in that folder."""
    found = find_spec("collforge.runtime")
    assert found is not None and found.origin is not None
    folder = Path(found.origin).parent / "src"
    paths = sorted(path for path in folder.rglob("*.[ch]"))
    names = {path: path.relative_to(folder).as_posix() for path in paths}
    return {
        name: path.read_text(encoding="utf-8")
        for path, name in names.items()
        if not name.startswith(OPAQUE)
    }


class Sources:
    """The definitions in some C files, by name."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.everywhere: Known = {}
        self.within: dict[str, Known] = {}
        for source, text in files.items():
            own = _definitions(source, text)
            self.within[source] = own
            for name, found in own.items():
                if source.endswith(".h") or found[0].tokens[0] not in ("static", "enum", "#"):
                    self.everywhere.setdefault(name, []).extend(found)

    def parts(self, text: str) -> dict[str, str]:
        """For each file that a variant with this text uses, the hash of the used definitions.

        The variant's own file is called ``variant``.
        """
        own = _definitions("variant", text)
        reached: dict[Definition, None] = {}
        waiting = [one for name in ROOTS for one in own.get(name, ())]
        while waiting:
            definition = waiting.pop()
            if definition in reached:
                continue
            reached[definition] = None
            near = own if definition.source == "variant" else self.within[definition.source]
            for name in _mentioned(definition.tokens):
                waiting += near.get(name) or self.everywhere.get(name, [])
        by_source: dict[str, list[str]] = {}
        for definition in reached:
            by_source.setdefault(definition.source, []).append(" ".join(definition.tokens))
        return {source: digest(sorted(texts)) for source, texts in sorted(by_source.items())}


def digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def of_parts(parts: Mapping[str, str]) -> str:
    """The fingerprint of a variant with these parts (`Sources.parts`)."""
    return digest(f"{source} {value}" for source, value in sorted(parts.items()))


def _definitions(source: str, text: str) -> Known:
    found: Known = {}
    for names, tokens in _chunks(text):
        for name in names:
            found.setdefault(name, []).append(Definition(source, tokens))
    return found


def _chunks(text: str) -> Iterator[tuple[list[str], tuple[str, ...]]]:
    """The top-level declarations of a file in order: the names that each defines, and its tokens."""
    tokens: list[str] = []
    depth = 0
    for match in _TOKEN.finditer(text):
        if match["skip"] or match["directive"]:
            continue
        if match["define"]:
            yield [match["macro"]], tuple(_plain(match["define"]))
            continue
        token = match.group()
        is_body = token == "}" and depth == 1 and _is_function(tokens)
        depth += (token in ("{", "(")) - (token in ("}", ")"))
        tokens.append(token)
        if depth == 0 and (token == ";" or is_body):
            names = _names(tokens)
            if names:
                yield names, tuple(tokens)
            tokens = []


def _plain(define: str) -> Iterator[str]:
    yield "#"
    for match in _TOKEN.finditer(define.replace("\\\n", " ").replace("#", " ", 1)):
        if not match["skip"]:
            yield match.group()


def _is_function(tokens: list[str]) -> bool:
    return "{" in tokens and tokens[tokens.index("{") - 1] == ")"


def _names(tokens: list[str]) -> list[str]:
    """The names that a top-level declaration defines; none for a prototype or a type."""
    if _is_function(tokens):
        return [tokens[tokens.index("(") - 1]]
    if tokens[0] == "enum" and "{" in tokens:
        inside = tokens[tokens.index("{") :]
        return [name for before, name in zip(inside, inside[1:]) if before in ("{", ",")]
    head = tokens[: tokens.index("=")] if "=" in tokens else []
    return [head[head.index("[") - 1] if "[" in head else head[-1]] if head else []


def _mentioned(tokens: tuple[str, ...]) -> list[str]:
    """The names in a definition, without member names (after ``.`` or ``->``)."""
    pairs = zip(("", *tokens), tokens)
    return list(dict.fromkeys(t for before, t in pairs if before not in (".", "->")))
