"""Programs that we did not write, under the preloaded library: native's answers, whatever runs."""

from __future__ import annotations

from functools import cache

import pytest
from programs.recipe import Recipe, recipes
from programs.run import Comparison, Setting, install, settings

pytestmark = pytest.mark.slow


@cache
def comparison(recipe: Recipe, mpi: str) -> Comparison:
    return Comparison(install(recipe, mpi))


@pytest.mark.parametrize("setting", settings(), ids=lambda s: f"{s.choice}@{s.node_map}")
@pytest.mark.parametrize("recipe", [r for r in recipes() if r.runs], ids=lambda r: r.name)
def test_a_program_gives_natives_answers(recipe: Recipe, mpi: str, setting: Setting) -> None:
    compared = comparison(recipe, mpi)
    for run in recipe.runs:
        assert not compared.compare(run, setting)


@pytest.mark.parametrize("recipe", [r for r in recipes() if r.testlists], ids=lambda r: r.name)
@pytest.mark.parametrize(
    "setting", [s for s in settings() if s.node_map == "3,1"], ids=lambda s: s.choice
)
def test_a_suite_passes_where_native_does(recipe: Recipe, mpi: str, setting: Setting) -> None:
    compared = comparison(recipe, mpi)
    runs = compared.program.runs()
    wrong = {run.name: why for run in runs if (why := compared.compare(run, setting))}
    unbuilt = len(compared.program.unbuilt())
    print(f"{len(runs) - len(wrong)} of {len(runs)} as native; {unbuilt} not built by this library")
    assert not wrong
