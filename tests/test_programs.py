"""Third-party programs under the preload: their answers must equal native's."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from programs import run as runner
from programs.recipe import Recipe, recipes
from programs.run import MAPS, Comparison, Setting, install, settings
from support import execute

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
    "setting", [s for s in settings() if s.node_map in ("3,1", "4")], ids=lambda s: s.choice
)
def test_a_suite_passes_where_native_does(recipe: Recipe, mpi: str, setting: Setting) -> None:
    compared = comparison(recipe, mpi)
    runs = compared.program.runs()
    wrong = {run.name: why for run in runs if (why := compared.compare(run, setting))}
    unbuilt = len(compared.program.unbuilt())
    print(f"{len(runs) - len(wrong)} of {len(runs)} as native; {unbuilt} not built by this library")
    assert not wrong


def test_a_spoiled_bit_is_noticed(
    mpi: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (recipe,) = (r for r in recipes() if r.name == "mpi4py")
    shim = tmp_path / "corrupt.so"
    source = Path(__file__).resolve().parent / "programs" / "corrupt.c"
    command = [f"mpicc.{mpi}", "-shared", "-fPIC", "-o", str(shim), str(source), "-ldl"]
    assert execute(command).returncode == 0
    variables = runner.variables

    def spoiled(mpi: str, setting: Setting, ranks: int, folder: Path) -> dict[str, str]:
        found = variables(mpi, setting, ranks, folder)
        return {**found, "LD_PRELOAD": f"{shim}:{found['LD_PRELOAD']}"}

    setting = Setting("full_lane", MAPS[1])
    assert not comparison(recipe, mpi).compare(recipe.runs[0], setting)
    monkeypatch.setattr(runner, "variables", spoiled)
    assert "preloaded: " in comparison(recipe, mpi).compare(recipe.runs[0], setting)
