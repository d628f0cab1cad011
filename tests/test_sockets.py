"""Ranks on the sockets of their nodes, as a part of the place: 2x4-packed and 2x4-cyclic.

The machine of the tests has one socket; HWLOC_SYNTHETIC makes hwloc see others.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from conftest import Installation, Launch
from driver import make_driver
from hazards.build import hybrid_program
from stored_winners import SIZE, store_winners
from support import execute

from collforge.db import Store
from collforge.errors import CollforgeError
from collforge.generator.manifest import Manifest
from collforge.layout import LayoutError, from_name
from collforge.place import Place
from collforge.reframe_checks.mpirun import local_command, on_sockets, step
from collforge.toolchain import libraries
from collforge.tuner.decide.winner_lookup import read_winners, serving_winner
from collforge.tuner.run import measuring

either = pytest.mark.either
needs_two_cores = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="ranks are bound to two cores"
)
A_CORE_A_SOCKET = {"HWLOC_SYNTHETIC": "package:2 core:1 pu:1", "COLLFORGE_NODE_MAP": "4"}
RANK = "unset HWLOC_XMLFILE; rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"
CORES = {"packed": "$((rank % 4 / 2))", "cyclic": "$((rank % 2))", "any": "0,1"}


def bound(how: str, *words: str) -> list[str]:
    """A command that first binds each rank to a core. Hydra's topology would go before the pretended one."""
    return ["sh", "-c", f'{RANK}; exec taskset -c "{CORES[how]}" "$0" "$@"', *words]


def test_names() -> None:
    at = from_name("2x4x2-cyclic")
    assert (at.name, at.key, at.threads, at.sockets) == ("2x4x2-cyclic", "2x4", 2, "cyclic")
    assert from_name("4x4/2x2-packed").launched.name == "4x4-packed"
    for wrong in ("2x4-", "2x4-spread", "2x4-packedx2", "4x1-packed", "4x4-packed/2x2"):
        with pytest.raises(LayoutError):
            from_name(wrong)


@either
@needs_two_cores
@pytest.mark.parametrize(("how", "name"), [("packed", "2x4-packed"), ("cyclic", "2x4-cyclic")])
def test_the_driver_tells_what_the_launcher_did(
    built: Installation, launch: Launch, tmp_path: Path, how: str, name: str
) -> None:
    def bind(mpi: str, ranks: int, words: list[str], **more: object) -> object:
        return launch(mpi, ranks, bound(how, *words), **more)

    driver = make_driver(built.library.name, built.built.driver_path, tmp_path, bind)
    cases = [f"bcast:hierarchical@{name},bytes=4"]
    code, records, _ = driver(cases, "--verify-only", "--sockets", ranks=8, **A_CORE_A_SOCKET)
    assert code == 0
    assert records[0]["layout"] == name
    code, _, error = driver(cases, "--verify-only", ranks=8, **A_CORE_A_SOCKET)
    assert code == 2, "without --sockets the layout is 2x4"
    assert "2x4" in error


@either
@needs_two_cores
def test_parts_that_lie_differently_are_refused(
    built: Installation, launch: Launch, tmp_path: Path
) -> None:
    """Three ranks a socket: the parts 0 1 and 4 5 are packed, 2 3 is not. No rank may wait for the others."""

    def bind(mpi: str, ranks: int, words: list[str], **more: object) -> object:
        words = ["sh", "-c", f'{RANK}; exec taskset -c $((rank / 3)) "$0" "$@"', *words]
        return launch(mpi, ranks, words, **more)

    driver = make_driver(built.library.name, built.built.driver_path, tmp_path, bind)
    cases = ["bcast:rank_shift@1x6/1x2-packed,bytes=4"]
    where = {**A_CORE_A_SOCKET, "COLLFORGE_NODE_MAP": "6"}
    code, _, error = driver(cases, "--verify-only", "--sockets", "--parts", "1x2", ranks=6, **where)
    assert code == 2
    assert "parts of 1x2 lie on the sockets in different ways" in error


@pytest.fixture
def database(built: Installation, made: Manifest, tmp_path: Path) -> Path:
    """Of bcast one winner for packed ranks and one for any; of allreduce one for any."""
    winners = {
        "2x2": {"bcast": "hierarchical", "allreduce": "hierarchical"},
        "2x2-packed": {"bcast": "rank_shift"},
    }
    return store_winners(tmp_path / "db", made, built.library, winners)


@either
@needs_two_cores
@pytest.mark.parametrize(
    ("how", "columns", "expected"),
    [
        ("packed", "2x2-cyclic", "hierarchical hierarchical"),
        ("cyclic", "2x2-packed", "rank_shift hierarchical"),
        ("any", "2x2", "hierarchical hierarchical"),
    ],
)
def test_ranks_on_sockets_have_winners_of_their_own(
    built: Installation,
    made: Manifest,
    database: Path,
    launch: Launch,
    how: str,
    columns: str,
    expected: str,
) -> None:
    """Of a job of 2x4, those columns, of every second rank. The runtime and the tuner's look-up alike."""
    program = hybrid_program(built, "divided")
    env = {"COLLFORGE_DB": str(database), **A_CORE_A_SOCKET}
    done = launch(built.library.name, 8, bound(how, str(program)), env)
    assert done.returncode == 0
    assert re.sub(r"\[[^]]*\]", "", done.stdout.strip()) == expected
    place = Place("here", built.library.name, built.library.first_line, columns)
    with Store(database, create=False) as store:
        winners = read_winners(store, made, place, from_name(columns))
    found = [serving_winner(made, winners, c, SIZE) for c in ("bcast", "allreduce")]
    assert " ".join(one.choice.variant.family for one in found if one) == expected


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
@pytest.mark.parametrize(("layout", "order"), [("2x4-packed", "0011"), ("2x4-cyclic", "0101")])
def test_options_of_the_launchers(mpi: str, layout: str, order: str) -> None:
    """Where mpirun would bind the ranks on nodes with two sockets of two cores. It starts none on them."""
    library = libraries.find(mpi)
    at = from_name(layout)
    words = [str(library.mpirun), *on_sockets("mpirun", library.flavor, at)]
    env = ["env", "HWLOC_SYNTHETIC=package:2 core:2 pu:1", "HWLOC_THISSYSTEM=1"]
    if mpi == "openmpi":
        words += ["-n", "8", "--host", "a:4,b:4", "--do-not-launch", "--display-map"]
        words += ["--allow-run-as-root", "true"]
        told = execute([*env, *words]).stdout
        found = re.findall(r"rank: (\d+) Bound: socket (\d)", told)
    else:
        done = execute([*env, "HYDRA_TOPO_DEBUG=1", *words, "-n", "4", "true"])
        masks = re.findall(r"process (\d+) binding: ([01]+)", done.stdout + done.stderr)
        found = [(rank, str(mask.index("1") // 2)) for rank, mask in masks]
        found += [(str(int(rank) + 4), socket) for rank, socket in found]
    assert [socket for _, socket in sorted(found)] == list(2 * order)


def test_steps_of_a_site() -> None:
    for layout, last in (("2x4-packed", "block"), ("2x4-cyclic", "cyclic")):
        words = step("srun --mpi=pmix", "openmpi", from_name(layout), 8).split()
        assert {f"--distribution=block:{last}", "--cpu-bind=cores", "--ntasks=8"} <= {*words}
    assert "--map-by ppr:4:node --bind-to core" in step(
        "mpirun -np 8", "openmpi", from_name("2x4-packed"), 8
    )
    with pytest.raises(CollforgeError, match="cannot place fewer ranks on a node"):
        step("mpirun -np 8", "openmpi", from_name("2x4-cyclic"), 8)
    assert "--map-by socket" in step("mpirun -np 8", "openmpi", from_name("2x4-cyclic"), 4)
    assert "-map-by socket" in step("mpiexec -n 8", "mpich", from_name("2x4-cyclic"), 8)


def test_other_launchers_are_left_to_their_configuration() -> None:
    for program in ("aprun", "srunalloc", "ssh", "jsrun"):
        assert on_sockets(program, "openmpi", from_name("2x4-packed")) == []


def test_where_there_are_none() -> None:
    with pytest.raises(CollforgeError, match="share their sockets"):
        measuring.parse_layout("4x2-packed", "emulated")
    ranks = len(os.sched_getaffinity(0)) + 1
    with pytest.raises(CollforgeError, match="cores are needed to place the ranks packed"):
        local_command("openmpi", ranks, 1, "packed")
