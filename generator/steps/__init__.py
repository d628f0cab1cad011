"""The kinds of steps of compositions: for each its keys in specs, its meaning and its C.

Each kind is one class in any module of this folder; the modules are found automatically.
"""

from __future__ import annotations

import importlib
import pkgutil

from .kind import BUFFER, OPTIONAL, PLACES, STEPS, InC, StepKind

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["BUFFER", "OPTIONAL", "PLACES", "STEPS", "InC", "StepKind"]
