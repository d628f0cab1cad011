"""The rules of Open MPI's coll/han: which calls it hands to coll/tuned, and its algorithms for the others.

On several nodes han outranks coll/tuned, so a rules file alone is never read. But han has a file of its own.
For each collective, size of the communicator and size of the message, it names a component, and for han also an
algorithm. Here is the text of that file, and how a launch forces an algorithm of han.

The format is that of Open MPI 5.0 (ompi/mca/coll/han/coll_han_dynamic_file.h). Tried with 5.0.11, which takes
an algorithm only after a space: ``han @simple``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FIRST = 100
"""Added to the numbers of han's algorithms, so that none is one of coll/tuned's."""
PREFIX = "han:"
"""Titles of han's algorithms start with it."""
OFF = {"coll_han_priority": "0"}
"""Under this setting coll/tuned serves all calls."""
_DEFAULT = 0
_OWN_CHOICE = "han"

Steps = Sequence["tuple[int, int]"]
"""Pairs (least bytes of a block, number of the algorithm), from 0 bytes on; number 0 is the own choice."""


@dataclass(frozen=True)
class Han:
    """The algorithms of coll/han in a library that reads rules for it."""

    algorithms: Mapping[str, Mapping[int, str]]
    """Collective -> number, from FIRST on -> title. Collectives that are missing never come to han."""

    def joined(self, tuned: Mapping[str, Mapping[int, str]]) -> dict[str, dict[int, str]]:
        """coll/tuned's algorithms by collective and number, with han's of the same collectives."""
        return {name: {**known, **self.algorithms.get(name, {})} for name, known in tuned.items()}

    def forced(self, number: int) -> dict[str, str]:
        """The MCA parameters under which han's algorithm runs in each collective that has this number."""
        return {
            f"coll_han_use_{name}_algorithm": str(number - FIRST)
            for name, known in self.algorithms.items()
            if number in known
        }

    def rules(self, ranks: int, steps: Mapping[str, Steps]) -> str:
        """The text of han's file: what is beyond han's own choice, for communicators of exactly this size.

        Every collective of han has an entry, because han reports a file without entries as wrong. Sizes are
        bytes of one rank's block in every collective.
        """
        lines = ["# Written by collforge export: which calls coll/han hands to coll/tuned"]
        lines += [f"{len(self.algorithms)} # collectives"]
        for name in sorted(self.algorithms):
            lines += [name, "1 # level", "global_communicator"]
            own = ["1", f"0 {_OWN_CHOICE}"]
            if name not in steps:
                lines += ["1 # communicator size", "1", *own]
                continue
            lines += ["3 # communicator sizes", "1 # and more", *own]
            lines += [f"{ranks} # exactly", str(len(steps[name]))]
            lines += [f"{start} {self._component(name, number)}" for start, number in steps[name]]
            lines += [f"{ranks + 1} # and more", *own]
        return "\n".join(lines) + "\n"

    def _component(self, collective: str, number: int) -> str:
        if number == _DEFAULT:
            return _OWN_CHOICE
        title = self.algorithms[collective].get(number)
        return "tuned" if title is None else f"han @{title[len(PREFIX) :]}"


def read(info: str) -> Han | None:
    """han's algorithms in the output of `ompi_info --param coll ... --level 9 --parsable`.

    None if this library's han reads no rules.
    """
    if ":param:coll_han_dynamic_rules_filename:" not in info:
        return None
    found: dict[str, dict[int, str]] = {}
    for name, number, title in re.findall(
        r"coll_han_use_(\w+)_algorithm:enumerator:value:(\d+):(\S+)", info
    ):
        if int(number) != _DEFAULT:
            found.setdefault(name, {})[FIRST + int(number)] = PREFIX + title
    return Han(found) if found else None


def rules_path(path: Path) -> Path:
    """han's file beside coll/tuned's: NAME.han.conf beside NAME.conf."""
    return path.with_name(f"{path.stem}.han{path.suffix}")


def settings(path: str) -> dict[str, str]:
    """The MCA parameters under which han reads the file with this path, which must be absolute."""
    return {"coll_han_use_dynamic_file_rules": "1", "coll_han_dynamic_rules_filename": path}
