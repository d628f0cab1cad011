"""Finds the modules that are commands or probes.

They are in a package of the tuner and in those that other packages name as entry points of a group of setup.cfg
(``collforge.commands``, ``collforge.probes``), so that nothing here imports them.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from importlib import metadata
from types import ModuleType


def find(package: ModuleType, needed: str) -> dict[str, ModuleType]:
    """The modules that define `needed`, sorted, by the name that a user types (`message-rate`).

    Of this package, and of the entry points of the group ``collforge.LEAF``, if it is collforge.….LEAF.
    """
    found = {name: module for one in (package, *_others(package)) for name, module in _modules(one)}
    return {name: found[name] for name in sorted(found) if hasattr(found[name], needed)}


def _modules(package: ModuleType) -> Iterator[tuple[str, ModuleType]]:
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        yield info.name.replace("_", "-"), module


def _others(package: ModuleType) -> list[ModuleType]:
    group = f"collforge.{package.__name__.rpartition('.')[2]}"
    try:
        installed = metadata.distribution("collforge").entry_points
    except metadata.PackageNotFoundError:  # a copy of the sources that nothing has installed
        return []
    return [one.load() for one in installed if one.group == group]
