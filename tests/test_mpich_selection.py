"""MPICH's selection files: its own trees with rules put in, and whether MPICH follows them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import Launch
from support import PREFIXES, execute

from collforge.errors import CollforgeError
from collforge.mpi_library import MpiLibrary
from collforge.reframe_checks import read_back as recorder
from collforge.toolchain import libraries
from collforge.tuner.cli.commands import export as command
from collforge.tuner.native.mpich_selection import (
    ALGORITHMS,
    SIZE_OF,
    SelectionFile,
    Step,
    Tree,
    Trees,
    common_tree,
    device_tree,
    write_trees,
)
from collforge.tuner.run.jobs import Site


@dataclass(frozen=True)
class Call:
    """What conditions ask of a call."""

    ranks: int
    bytes: int
    facts: frozenset[str] = frozenset()
    """Conditions that hold, other than those on sizes."""

    def holds(self, condition: str) -> bool:
        name, sign, value = re.fullmatch(r"(\w+)(<=|<|=)(\w+)", condition).groups()  # type: ignore[union-attr]
        sizes = {
            "comm_size": self.ranks,
            "avg_msg_size": self.bytes,
            "total_msg_size": self.bytes * self.ranks,
        }
        if value == "any" or condition in self.facts:
            return True
        if condition == "comm_size=pow2":
            return self.ranks & (self.ranks - 1) == 0
        if name in sizes and value.isdigit():
            return sizes[name] < int(value) + (sign == "<=")
        return False


def search(tree: Tree, call: Call) -> str:
    """The algorithm or composition at which MPICH arrives; '' at none."""
    for condition, below in tree.items():
        if condition.startswith(("algorithm=", "composition=")):
            return condition.partition("=")[2]
        if call.holds(condition):
            return search(below, call)
    return ""


INTRA = frozenset({"comm_type=intra", "is_sendbuf_inplace=no"})
BUILT_IN = INTRA | {"is_commutative=yes", "is_op_built_in=yes", "is_node_consecutive=yes"}
USERS = INTRA | {"is_commutative=no", "is_op_built_in=no", "is_node_consecutive=no"}
CALLS = [
    Call(ranks, nbytes, facts | more)
    for ranks in (3, 7, 8, 9)
    for nbytes in (8, 1023, 1024, 16384, 1 << 20)
    for facts in (BUILT_IN, USERS)
    for more in (frozenset({"comm_hierarchy=parent"}), frozenset({"count<pow2"}))
]


@pytest.fixture(scope="module")
def trees() -> Trees:
    return Trees.of(libraries.find("mpich"))


@pytest.mark.parametrize("collective", sorted(ALGORITHMS))
def test_a_rule_changes_the_calls_that_it_serves_and_no_other(
    trees: Trees, collective: str
) -> None:
    key, scale = f"collective={collective}", 8 if SIZE_OF.get(collective) == "total_msg_size" else 1
    for number, name in trees.algorithms(8)[collective].items():
        steps = [Step(0, 0), Step(1024 * scale, number)]
        steps = steps if collective in SIZE_OF else [Step(0, number)]
        tree = common_tree(trees, 8, {collective: steps})
        device = device_tree(trees, 8, {collective: steps})
        assert {k: v for k, v in tree.items() if k != key} == {
            k: v for k, v in trees.common.items() if k != key
        }
        taken = 0
        for call in CALLS:
            ran, was = search(tree[key], call), search(trees.common[key], call)
            on_device = search(device[key], call), search(trees.device[key], call)
            if call.ranks == 8 and (collective not in SIZE_OF or call.bytes >= 1024):
                needs = ALGORITHMS[collective][name]
                serves = call.facts >= BUILT_IN or not {"commutative", "built-in op"} & {*needs}
                serves = serves and ("consecutive" not in needs or call.facts >= BUILT_IN)
                serves = serves and ("nodes" not in needs or "comm_hierarchy=parent" in call.facts)
                serves = serves and (
                    "enough elements" not in needs or "count<pow2" not in call.facts
                )
                assert ran.endswith(f"_{name}") if serves else ran == was
                taken += serves
            else:
                assert ran == was and on_device[0] == on_device[1]
        assert taken


def test_no_file_fills_its_last_page(trees: Trees, tmp_path: Path) -> None:
    path = tmp_path / "rules.json"
    write_trees(trees, 4, {}, path, "")
    missing = -path.stat().st_size % 4096
    write_trees(trees, 4, {}, path, "x" * missing)
    assert path.stat().st_size % 4096 == 1
    assert json.loads(path.read_text().partition("*/")[2]) == trees.common


def test_a_library_without_trees_is_refused(tmp_path: Path) -> None:
    mpicc = tmp_path / "mpicc"
    # Programs load it, but it has no trees: any other library of this name.
    mpicc.write_text(
        '#!/bin/sh\ncd "$(dirname "$0")" && echo "int a;" >e.c && '
        "gcc -shared -Wl,-soname,libmpi.so.12 -o libmpi.so.12 -x c e.c && shift && "
        'echo "int main(void) {return 0;}" >m.c && gcc -Wl,--no-as-needed -Wl,-rpath,$PWD '
        '-o "$2" m.c ./libmpi.so.12\n'
    )
    mpicc.chmod(0o755)
    old = MpiLibrary("old", mpicc, tmp_path / "mpirun", "MPICH Version: 3.4.3", True)
    with pytest.raises(CollforgeError, match=r"old \(MPICH 3.4.3\) has no selection trees inside"):
        Trees.of(old)


@pytest.mark.wide
def test_rules_that_calls_do_not_come_to_are_removed(
    trees: Trees, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, known = tmp_path / "rules.json", trees.algorithms(4)
    number = {name: {title: n for n, title in of_one.items()} for name, of_one in known.items()}
    choices = {
        "bcast": {1024: number["bcast"]["scatter_ring_allgather"], 65536: 0},
        # One double has fewer elements than there are ranks.
        "allreduce": {8: number["allreduce"]["reduce_scatter_allgather"]},
    }
    file = SelectionFile(path, 4, known, {"gather": "it is not exported"}, trees)
    assert command.prove(Site("local", "mpich"), "4x1", file, choices, tmp_path) == 1
    out = capsys.readouterr().out
    assert "bcast 1 KiB: asked scatter_ring_allgather, ran scatter_ring_allgather: confirmed" in out
    assert "allreduce 8 B: asked reduce_scatter_allgather, ran unknown: not taken" in out
    head, _, text = path.read_text().partition("*/")
    assert "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE=THIS_FILE" in head
    assert "gather has no rules: it is not exported" in head and "not taken" in head
    written = json.loads(text)
    assert written["collective=allreduce"] == trees.common["collective=allreduce"]
    assert written["collective=bcast"] != trees.common["collective=bcast"]


@pytest.mark.wide
@pytest.mark.parametrize("mpi", ["mpich", "mpich5"])
def test_under_a_file_every_size_and_algorithm_runs(
    mpi: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mpi == "mpich5":
        assert (PREFIXES / mpi).exists(), "run `make prefixes`"
        monkeypatch.setenv("COLLFORGE_MPI_MPICH5", str(PREFIXES / mpi))
    library = libraries.find(mpi)
    trees, program, lines = Trees.of(library), tmp_path / "calls", tmp_path / "lines"
    known = trees.algorithms(4)
    assert execute(recorder.compile_command(str(library.mpicc), program)).returncode == 0
    for number in range(1, 1 + max(n for of_one in known.values() for n in of_one)):
        choices = {name: {1024: number} for name, of_one in known.items() if number in of_one}
        file = SelectionFile(tmp_path / "rules.json", 4, known, {}, trees)
        file.write(choices)
        calls = [f"{name}:{nbytes}" for name in known for nbytes in (64, 1024, 262144)]
        variables = [f"{name}={value}" for name, value in file.variables().items()]
        ranks = [str(library.mpirun), "-n", "4", str(program), str(lines), *calls]
        done = execute(["env", *variables, *ranks], timeout=100)
        assert done.returncode == 0
        found = recorder.read(lines.read_text())
        assert len(found) == len(calls) and not any(one.failed for one in found.values())


@pytest.mark.slow
def test_the_command_exports_for_mpich(tmp_path: Path, collforge: Launch) -> None:
    path = tmp_path / "rules.json"
    arguments = ["--to", "mpich", "--system", "local", "--layout", "2x1", "--launches", "1"]
    sizes = ["--collective", "allgather,gather", "--sizes", "64KiB", "--output", str(path)]
    done = collforge("export", *arguments, *sizes, timeout=280)
    assert done.returncode == 0
    assert "gather is not exported: besides a form of the nonblocking call" in done.stdout
    assert f"written: {path}; rules confirmed: " in done.stdout
    assert path.exists() and (tmp_path / "rules.ch4.json").exists()
