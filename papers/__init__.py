"""The figures of the five papers, measured on your own system. It uses the product, which does not use it."""

from __future__ import annotations

from pathlib import Path

PROGRAMS = Path(__file__).resolve().parent / "programs"
"""The folder of the programs' C."""

KERNELS = Path(__file__).resolve().parent / "kernels"
"""The folder of small applications, each of which runs by its first line."""
