"""Finds the modules that are commands or probes.

They are in a package of the tuner and in those that other packages name as entry points of a group of setup.cfg
(``collforge.commands``, ``collforge.probes``), so that nothing here imports them.
"""

from __future__ import annotations

import importlib
import pkgutil
from importlib import metadata
from types import ModuleType


def find(package: ModuleType, needed: str, only: str = "") -> dict[str, ModuleType]:
    """The modules that define `needed`, sorted, by the name that a user types (`message-rate`).

    Of this package, and of the entry points of the group ``collforge.LEAF``, if it is collforge.….LEAF.
    `only`: the module of this name alone, and no other is imported, if there is one.
    """
    paths = _paths(package)
    if only not in paths:
        paths.update(item for one in _others(package) for item in _paths(one).items())
    chosen = [only] if only in paths else sorted(paths)
    found = {name: importlib.import_module(paths[name]) for name in chosen}
    return {name: module for name, module in found.items() if hasattr(module, needed)}


def _paths(package: ModuleType) -> dict[str, str]:
    """Name -> module."""
    names = [info.name for info in pkgutil.iter_modules(package.__path__)]
    return {name.replace("_", "-"): f"{package.__name__}.{name}" for name in names}


def _others(package: ModuleType) -> list[ModuleType]:
    group = f"collforge.{package.__name__.rpartition('.')[2]}"
    try:
        installed = metadata.distribution("collforge").entry_points
    except metadata.PackageNotFoundError:  # a copy of the sources that nothing has installed
        return []
    return [one.load() for one in installed if one.group == group]
