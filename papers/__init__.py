"""The figures of the five papers, measured on your own system. It uses the product, which does not use it."""

from __future__ import annotations

from pathlib import Path

CHECKS = Path(__file__).resolve().parent / "checks"
"""The folder of the ReFrame checks of the figures' programs: ``reframe -c CHECKS -R``."""

PROGRAMS = Path(__file__).resolve().parent / "programs"
"""The folder of the programs' C."""

KERNELS = Path(__file__).resolve().parent / "kernels"
"""The folder of small applications, each of which runs by its first line."""
