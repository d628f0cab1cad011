"""The steps that compositions are made of: what each may say, what it means, and its C.

A step is one class, in any module of this folder, and is known by being there.
"""

from __future__ import annotations

import importlib
import pkgutil

from .kind import BUFFER, OPTIONAL, PLACES, STEPS, InC, StepKind

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["BUFFER", "OPTIONAL", "PLACES", "STEPS", "InC", "StepKind"]
