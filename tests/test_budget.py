"""Tuning within limits: several layouts, and the budgets of a queue."""

from __future__ import annotations

import argparse

import pytest

from collforge.layout import LayoutError
from collforge.tuner.commands import tune


def asked(layout: str | None, cover: str | None = None) -> list[str | None]:
    return tune.asked_layouts(argparse.Namespace(layout=layout, cover=cover, profile=None))


def test_layouts_in_a_list() -> None:
    assert asked("2x32, 4x32,2x32") == ["2x32", "4x32"]
    assert asked(None) == asked("4x2", cover="8x2") == [None], "the default is the system's"
    for text in ("2x2,", "2x2,,4x2", "2x2;4x2"):
        with pytest.raises(LayoutError):
            asked(text)
