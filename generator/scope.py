"""The local variables of a C function, declared because something names them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from string import Formatter


@dataclass(frozen=True)
class Local:
    """A local variable: its name, its C type and its value, a format in which {name} names another one.

    Without a type it is no variable but a name for its value. ``check`` is a statement after its declaration,
    ``unused`` one that stands for the declaration where nothing uses it.
    """

    name: str
    ctype: str
    value: str
    check: str = ""
    unused: str = ""


class Scope:
    """The local variables of a function. Whatever writes C names them as attributes, or in `fill`.

    So a variable is declared if, and only if, it is used. ``known``: in an order in which they can be declared.
    """

    def __init__(self, known: Iterable[Local]) -> None:
        self._known = {one.name: one for one in known}
        self._values: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        """What stands for a variable in C."""
        local = self._known[name]
        if name not in self._values:
            self._values[name] = self.fill(local.value)
        return name if local.ctype else self._values[name]

    def __getattr__(self, name: str) -> str:
        if name.startswith("_") or name not in self._known:
            raise AttributeError(f"no local variable is called {name!r}")
        return self[name]

    def fill(self, text: str, **words: str) -> str:
        """The C text of a format in which {name} stands for one of the words, or for a variable."""
        names = {name for _, name, _, _ in Formatter().parse(text) if name}
        return text.format(**words, **{name: self[name] for name in names - words.keys()})

    def declarations(self, among: Iterable[Local]) -> list[str]:
        """The declarations of the variables in use, and statements that belong to them."""
        lines: list[str] = []
        for local in among:
            if local.name not in self._values:
                lines.append(local.unused)
            elif local.ctype:
                lines.append(f"{local.ctype}{local.name} = {self._values[local.name]};")
                lines.append(local.check)
        return [line for line in lines if line]
