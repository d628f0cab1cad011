"""Finds the modules of a package that are commands or probes; no other registration is needed."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def find(package: ModuleType, needed: str) -> dict[str, ModuleType]:
    """The modules of a package that define `needed`, sorted, by the name that a user types (`message-rate`)."""
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    modules = {name: importlib.import_module(f"{package.__name__}.{name}") for name in names}
    return {
        name.replace("_", "-"): module
        for name, module in modules.items()
        if hasattr(module, needed)
    }
