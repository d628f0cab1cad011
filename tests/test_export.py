"""The libraries' tuning files, from measurements of their own algorithms: Open MPI's, and what is in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Callable

import pytest
from conftest import Launch
from support import PREFIXES, execute

from collforge.errors import CollforgeError
from collforge.reframe_checks import read_back as recorder
from collforge.reframe_checks.read_back import FUNCTIONS, Entered
from collforge.toolchain import libraries
from collforge.tuner.cli.commands import export as command
from collforge.tuner.native import algorithms, export, openmpi_han, read_back
from collforge.tuner.native.read_back import Asked
from collforge.tuner.run.jobs import Site

RULES = """\
1 # collectives
0 # allgather
3 # communicator sizes
0 1 # the smaller ones
0 0 0 0
8 4
0 0 0 0
8192 0 0 0
16384 3 0 0
65536 4 0 0
9 1 # the larger ones
0 0 0 0
"""


def test_algorithms_are_those_the_library_lists() -> None:
    known = export.openmpi_algorithms(libraries.find("openmpi"))
    assert known["bcast"][6] == "binomial"
    assert set(known) == set(export.OPENMPI_IDS)
    assert all(export.OWN_CHOICE not in of_one for of_one in known.values())


def test_other_libraries_are_refused_with_the_reason() -> None:
    other = replace(libraries.find("mpich"), version="Some other MPI 1.0")
    with pytest.raises(CollforgeError, match="neither Open MPI nor MPICH"):
        algorithms.tuning_file(other, Path("rules"), 4)


def test_an_algorithm_must_beat_the_own_choice_in_every_launch() -> None:
    own = [1.0, 1.1, 1.0]
    assert export.choose({0: own, 2: [0.5, 0.6, 0.5], 3: [0.4, 0.4, 0.4]}) == 3
    assert export.choose({0: own, 2: [0.5, 1.2, 0.5]}) == 0
    assert export.choose({0: own, 2: [0.99, 1.09, 0.99]}) == 0, "not by the margin"
    assert export.choose({0: own, 2: [0.5]}) == 0, "failed in a launch"
    assert export.choose({}) == 0


def test_rules_count_bytes_as_open_mpi_does() -> None:
    choices = {"allgather": {1024: 0, 4096: 3, 16384: 4}, "bcast": {1024: 0}}
    text = export.openmpi_rules(8, choices)
    assert "".join(line for line in text.splitlines(True) if not line.startswith("#")) == RULES


Record = Callable[..., "dict[tuple[str, int], Entered]"]
OnNodes = Callable[..., "tuple[dict[tuple[str, int], Entered], str]"]


@pytest.fixture(scope="module")
def record(launch: Launch, tmp_path_factory: pytest.TempPathFactory) -> Record:
    """record(ranks, calls, settings): the algorithms that ran in a launch here with Debian's Open MPI."""
    folder = tmp_path_factory.mktemp("record")
    program = folder / "which_algorithm"
    mpicc = str(libraries.find("openmpi").mpicc)
    assert execute(recorder.compile_command(mpicc, program)).returncode == 0

    def run(
        ranks: int, calls: Sequence[str], settings: Mapping[str, str]
    ) -> dict[tuple[str, int], Entered]:
        lines = folder / "lines"
        env = read_back.mca_variables(settings)
        done = launch("openmpi", ranks, [str(program), str(lines), *calls], env, timeout=60)
        assert done.returncode == 0
        return recorder.read(lines.read_text())

    return run


def under(rules: Path) -> dict[str, str]:
    """The settings in the header of a file."""
    words = [line.split() for line in rules.read_text().splitlines() if "--mca" in line]
    places = {"THIS_FILE": str(rules), "THIS_FOLDER": str(rules.parent)}
    for place, path in places.items():
        words = [[word.replace(place, path) for word in line] for line in words]
    return {name: value for _, _, name, value in words}


def test_every_algorithm_is_recognized_when_it_is_forced(record: Record) -> None:
    known = export.openmpi_algorithms(libraries.find("openmpi"))
    for number in range(1, 1 + max(n for of_one in known.values() for n in of_one)):
        titles = {name: of_one[number] for name, of_one in known.items() if number in of_one}
        forced = {f"coll_tuned_{name}_algorithm": str(number) for name in titles}
        settings = {"coll_tuned_use_dynamic_rules": "1", **forced}
        # Large enough that no algorithm delegates to another, except the two for two processes.
        ranks = 2 if "two_proc" in titles.values() else 4
        found = record(ranks, [f"{name}:4194304" for name in titles], settings)
        rows = [
            read_back.judge(Asked(name, 4194304, title), found.get((name, 4194304)))
            for name, title in titles.items()
            if ranks == 4 or title == "two_proc"
        ]
        assert rows and [str(row) for row in rows if row.why_not] == []


def test_a_written_file_is_taken_at_every_size(record: Record, tmp_path: Path) -> None:
    library = libraries.find("openmpi")
    known = export.openmpi_algorithms(library)
    choices = {
        "allgather": {1024: 2, 16384: 4},
        "allreduce": {1024: 1, 16384: 3},
        "alltoall": {1024: 2, 16384: 1},
        "bcast": {1024: 3, 16384: 6},
        "exscan": {1024: 2, 16384: 2},
        "reduce": {1024: 5, 16384: 2},
        "reduce_scatter_block": {1024: 4, 16384: 1},
        "scan": {1024: 2, 16384: 2},
    }
    rules = tmp_path / "rules.conf"
    rules.write_text(export.openmpi_rules(4, choices, export.openmpi_settings(library)))
    asked = [
        Asked(name, nbytes, known[name][number])
        for name, of_one in choices.items()
        for nbytes, number in of_one.items()
    ]
    found = record(4, [f"{one.collective}:{one.bytes}" for one in asked], under(rules))
    rows = [read_back.judge(one, found.get((one.collective, one.bytes))) for one in asked]
    assert [str(row) for row in rows if row.why_not] == []
    # Open MPI counts sizes as the file does: just below the limit of two rules, the first one holds.
    below = record(4, ["allgather:4088", "bcast:4088", "reduce_scatter_block:4088"], under(rules))
    assert [one.first for one in below.values()] == [
        "intra_bruck",
        "intra_pipeline",
        "intra_butterfly",
    ]


@pytest.mark.parametrize("fault", ["other size", "unknown version", "no file", "scan by bytes"])
def test_a_rule_that_is_not_taken_is_found(record: Record, tmp_path: Path, fault: str) -> None:
    rules = tmp_path / "rules.conf"
    text = export.openmpi_rules(8 if fault == "other size" else 4, {"bcast": {1024: 7}})
    if fault == "scan by bytes":
        text = text.replace("7 # bcast", "14 # scan").replace("1024 7 0 0", "1024 2 0 0")
    rules.write_text(("rule-file-version-2\n" if fault == "unknown version" else "") + text)
    settings = under(rules)
    if fault == "no file":
        rules.unlink()
    name, title = ("scan", "recursive_doubling") if "scan" in fault else ("bcast", "knomial")
    found = record(4, [f"{name}:1024"], settings)
    row = read_back.judge(Asked(name, 1024, title), found[name, 1024])
    assert row.why_not == "the rule does not apply to this call"
    assert row.ran and row.ran != title


def test_only_the_algorithm_itself_confirms_a_rule() -> None:
    ring = Entered("intra_ring", "", 0, same=True, failed=False)
    asked = Asked("allgather", 1024, "ring")

    def why(entered: Entered | None) -> str:
        return read_back.judge(asked, entered).why_not

    assert why(ring) == ""
    assert why(replace(ring, then="intra_bruck")) == "ring handed the call over"
    assert why(replace(ring, first="", elsewhere=4)).startswith("a component other than tuned")
    assert why(replace(ring, elsewhere=4)).startswith("a component other than tuned"), (
        "in its set-up"
    )
    assert why(replace(ring, first="")) == "a component other than tuned ran it"
    assert why(replace(ring, same=False)) == "not all ranks ran the same"
    assert why(replace(ring, failed=True)) == "MPI returned an error"
    assert why(None) == "the launch ended before or in this call"
    assert read_back.judge(replace(asked, title="new"), ring).why_not.endswith("is not known")


def test_han_confirms_its_rules_by_its_communicators() -> None:
    parts = Entered("", "", 3, same=True, failed=False)
    asked = Asked("allgather", 1024, "han:simple")

    def row(entered: Entered | None) -> read_back.Row:
        return read_back.judge(asked, entered)

    assert str(row(parts)).endswith("confirmed, but which of han's algorithms ran cannot be seen")
    alone = row(replace(parts, first="intra_ring", elsewhere=0))
    assert (alone.handed_over, alone.ran) == (True, "ring")
    assert row(replace(parts, first="intra_ring")).why_not == "not all of the call was run by han"
    assert row(replace(parts, same=False)).why_not == "not all of the call was run by han"
    assert row(replace(parts, elsewhere=0)).why_not.startswith("no algorithm ran in parts")
    assert row(replace(parts, failed=True)).why_not == "MPI returned an error"
    assert row(None).why_not == read_back.ENDED


def test_scan_is_exported_for_all_sizes_or_not_at_all() -> None:
    assert set(export.UNSIZED) == {"scan", "exscan"}
    file = export.RulesFile(Path("rules"), 8, {}, {}, {})
    assert file.not_expressible({"scan": {1024: 2, 4096: 2}, "exscan": {1024: 0}}) == {}
    assert "type size x ranks" in file.not_expressible({"scan": {1024: 0, 4096: 2}})["scan"]
    assert "only one size" in file.not_expressible({"exscan": {1024: 2}})["exscan"]
    assert "14 # scan\n3 # communicator sizes\n0 1 # the smaller ones\n0 0 0 0\n8 1\n0 2 0 0\n" in (
        export.openmpi_rules(8, {"scan": {1024: 2, 4096: 2}})
    )


def test_what_outranks_tuned_is_switched_off(tmp_path: Path) -> None:
    priorities = {"han": 35, "tuned": 30, "self": 75, "sync": 50, "basic": 10, "adapt": 0}
    lines = "".join(
        f"mca:coll:{name}:param:coll_{name}_priority:value:{value}\n"
        for name, value in priorities.items()
    )
    info = tmp_path / "ompi_info"
    info.write_text(f"#!/bin/sh\ncat <<END\n{lines}END\n")
    info.chmod(0o755)
    library = replace(libraries.find("openmpi"), mpirun=tmp_path / "mpirun")
    settings = export.openmpi_settings(library)
    assert settings == {"coll_tuned_use_dynamic_rules": "1", "coll_han_priority": "0"}
    assert "#   --mca coll_han_priority 0\n" in export.openmpi_rules(8, {}, settings)
    known = export.openmpi_settings(libraries.find("openmpi"))
    assert known.keys() == {"coll_tuned_use_dynamic_rules"}
    # A han that reads rules stays on. Where tuned outranks it, as in Open MPI 4.1, it needs none.
    lines += "x:param:coll_han_dynamic_rules_filename:value:\n"
    lines += "x:param:coll_han_use_bcast_algorithm:enumerator:value:2:simple\n"
    info.write_text(f"#!/bin/sh\ncat <<END\n{lines}END\n")
    assert export.openmpi_settings(library).keys() == {"coll_tuned_use_dynamic_rules"}
    assert export.han_of(library) == openmpi_han.Han({"bcast": {102: "han:simple"}})
    info.write_text(info.read_text().replace("han_priority:value:35", "han_priority:value:0"))
    assert export.han_of(library) is None


HAN = openmpi_han.Han(
    {"allreduce": {101: "han:intra", 103: "han:reproducible"}, "bcast": {102: "han:simple"}}
)
HAN_RULES = """\
2 # collectives
allreduce
1 # level
global_communicator
1 # communicator size
1
1
0 han
bcast
1 # level
global_communicator
3 # communicator sizes
1 # and more
1
0 han
8 # exactly
4
0 han
1024 tuned
2048 han @simple
8192 han
9 # and more
1
0 han
"""


def test_han_has_a_file_of_its_own_beside_the_rules(tmp_path: Path) -> None:
    tuned = {"allreduce": {1: "linear"}, "bcast": {6: "binomial"}, "scan": {2: "linear"}}
    settings = {"coll_tuned_use_dynamic_rules": "1"}
    path = tmp_path / "rules.conf"
    file = export.RulesFile(path, 8, HAN.joined(tuned), {}, settings, HAN)
    assert file.algorithms["bcast"] == {6: "binomial", 102: "han:simple"}
    choices = {"bcast": {1024: 6, 4096: 102, 16384: 0}, "scan": {8: 2, 16: 2}}
    file.write(choices)
    beside = tmp_path / "rules.han.conf"
    assert beside.read_text().split("\n", 1)[1] == HAN_RULES
    bcast = path.read_text().split("7 # bcast\n")[1].split("14 # scan\n")[0]
    assert "8 4\n0 0 0 0\n1024 6 0 0\n2048 0 0 0\n8192 0 0 0\n" in bcast
    assert read_back.mca_variables(under(path)) == file.variables()
    assert file.variables()["OMPI_MCA_coll_han_dynamic_rules_filename"] == str(beside)
    assert file.own_settings() is None
    off = {**settings, "coll_adapt_priority": "0"}
    assert replace(file, settings=off).own_settings() == read_back.mca_variables(off)
    assert [str(one.title) for one in file.asked(choices)[:2]] == ["binomial", "han:simple"]


def test_in_a_timing_launch_han_is_off_or_runs_the_algorithm() -> None:
    file = export.RulesFile(Path("rules"), 8, {"bcast": {6: "binomial"}}, {}, {}, HAN)
    forced = {name.removeprefix("OMPI_MCA_"): value for name, value in file.forced(6).items()}
    assert forced == {"coll_han_priority": "0", "coll_tuned_bcast_algorithm": "6"}
    assert file.forced(103) == {"OMPI_MCA_coll_han_use_allreduce_algorithm": "3"}


def test_without_han_there_is_one_file_without_a_word_of_han(tmp_path: Path) -> None:
    library = libraries.find("openmpi")
    file = algorithms.tuning_file(library, tmp_path / "rules.conf", 8)
    assert isinstance(file, export.RulesFile) and file.han is None
    known = export.openmpi_algorithms(library)
    assert {name: set(titles.values()) for name, titles in file.algorithms.items()} == {
        name: set(titles.values()) - {"two_proc"} for name, titles in known.items()
    }
    assert file.forced(6).keys() == {
        f"OMPI_MCA_coll_tuned_{name}"
        for name in (
            "use_dynamic_rules",
            "allreduce_algorithm",
            "bcast_algorithm",
            "reduce_algorithm",
        )
    }, "algorithm 6 of allgather is for two processes"
    choices = {"allgather": {1024: 0, 4096: 3, 16384: 4}}
    file.write(choices)
    head = [
        "# Written by collforge export for communicators of exactly 8 ranks; use it with",
        "#   --mca coll_tuned_use_dynamic_rules 1",
        "#   --mca coll_tuned_dynamic_rules_filename THIS_FILE",
    ]
    assert file.path.read_text() == "\n".join(head) + "\n" + RULES
    assert list(tmp_path.iterdir()) == [file.path]
    assert not [name for name in {**file.variables(), **file.forced(3)} if "han" in name]


def test_what_switching_components_off_loses_is_told() -> None:
    own = [1.0, 1.0]
    assert export.lost({0: own, -1: [1.5, 1.5]}) == pytest.approx(1.5)
    assert export.lost({0: own, -1: [1.5, 1.01]}) == 1, "not in every launch"
    assert export.lost({0: own}) == 1
    assert export.choose({0: own, -1: [0.5, 0.5]}) == 0, "no algorithm that a file can name"


def test_rules_that_are_not_taken_are_removed_and_fail(
    tmp_path: Path, record: Record, capsys: pytest.CaptureFixture[str]
) -> None:
    library = libraries.find("openmpi")
    known = export.openmpi_algorithms(library)
    path = tmp_path / "rules.conf"
    file = export.RulesFile(path, 4, known, {}, export.openmpi_settings(library))
    # A segmented ring with one segment delegates to the ring; an algorithm for two ranks cannot run on four.
    choices = {
        "allreduce": {1024: 5, 65536: 1},
        "allgather": {4096: 6, 65536: 4},
        "bcast": {1024: 6},
        "scan": {1024: 2, 4096: 2},
    }
    assert command.prove(Site("local", "openmpi"), "4x1", file, choices, tmp_path) == 1
    out, err = capsys.readouterr()
    assert "allgather 4 KiB: asked two_proc, ran two_proc: not taken: MPI returned an error" in out
    assert "allreduce 1 KiB: asked segmented_ring, ran ring: handed over to ring" in out
    assert "allreduce 1 KiB: asked ring, ran ring: confirmed" in out
    assert "allreduce 64 KiB: asked basic_linear, ran basic_linear: confirmed" in out
    assert "scan 4 KiB: asked recursive_doubling, ran recursive_doubling: confirmed" in out
    assert "see `not taken` above" in err
    text = path.read_text()
    assert "\n1024 4 0 0\n8192 1 0 0\n" in text.split("2 # allreduce")[1].split("# bcast")[0]
    assert "\n16384 0 0 0\n65536 4 0 0\n" in text.split("# allgather")[1].split("# allreduce")[0]
    assert "read back: bcast 1 KiB: asked binomial, ran binomial: confirmed" in text
    # The file has remarks now; they have no effect.
    taken = record(4, ["bcast:1024", "allreduce:1024", "scan:8"], under(path))
    functions = [one.first for one in taken.values()]
    assert functions == ["intra_binomial", "intra_ring", "intra_recursivedoubling"]


@pytest.mark.wide
def test_the_command_measures_and_writes(tmp_path: Path, collforge: Launch) -> None:
    rules = tmp_path / "rules.conf"
    sizes = ["--collective", "scan,gather", "--sizes", "1KiB,64KiB"]
    system = ["--to", "openmpi", "--system", "local", "--output", str(rules)]
    arguments = [*system, *sizes, "--launches", "1", "--layout", "2x1"]
    done = collforge("export", *arguments, timeout=280)
    assert done.returncode == 0
    assert "timing: launch 1 of 3, " in done.stderr
    assert "scan 1 KiB: " in done.stdout
    assert "gather is not exported: its rule reads arguments" in done.stdout
    assert f"written: {rules}; rules confirmed: " in done.stdout
    assert "# collectives" in rules.read_text()


def test_functions_are_distinct() -> None:
    assert set(FUNCTIONS) == set(export.OPENMPI_IDS)
    for of_one in FUNCTIONS.values():
        assert len(set(of_one.values())) == len(of_one)


@pytest.fixture
def record_on_nodes(tmp_path: Path, collforge: Launch, monkeypatch: pytest.MonkeyPatch) -> OnNodes:
    """record(calls, settings): what ran with Open MPI 5 on two nodes of two ranks, and the launch's output."""
    assert (PREFIXES / "openmpi5").exists(), "run `make prefixes`"
    monkeypatch.setenv("COLLFORGE_MPI_OPENMPI5", str(PREFIXES / "openmpi5"))
    program, lines = tmp_path / "which_algorithm", tmp_path / "lines"
    mpicc = str(libraries.find("openmpi5").mpicc)
    assert execute(recorder.compile_command(mpicc, program)).returncode == 0
    cluster = ["cluster", "run", "--mpi", "openmpi5", "--layout", "2x2", "--"]

    def run(
        calls: Sequence[str], settings: Mapping[str, str]
    ) -> tuple[dict[tuple[str, int], Entered], str]:
        with monkeypatch.context() as patch:
            for name, value in settings.items():
                patch.setenv(name, value)
            done = collforge(*cluster, str(program), str(lines), *calls, timeout=100)
        assert done.returncode == 0
        return recorder.read(lines.read_text()), done.stdout + done.stderr

    return run


@pytest.mark.wide
@pytest.mark.emulated
def test_only_calls_with_a_rule_leave_han(tmp_path: Path, record_on_nodes: OnNodes) -> None:
    path = tmp_path / "rules.conf"
    file = algorithms.tuning_file(libraries.find("openmpi5"), path, 4)
    ring = next(n for n, title in file.algorithms["allreduce"].items() if title == "ring")
    simple = next(n for n, title in file.algorithms["allreduce"].items() if title == "han:simple")
    choices = {"allreduce": {1024: 0, 8192: ring, 65536: simple, 1048576: 0}}
    file.write(choices)
    assert file.own_settings() is None and "coll_han_priority" not in under(path)
    calls = [f"allreduce:{nbytes}" for nbytes in choices["allreduce"]]
    calls += [f"{name}:8192" for name in ("bcast", "reduce", "allgather", "scan")]
    say = {"OMPI_MCA_coll_han_verbose": "1"}
    found, said = record_on_nodes(calls, {**read_back.mca_variables(under(path)), **say})
    rows = [read_back.judge(one, found[one.collective, one.bytes]) for one in file.asked(choices)]
    assert [row.why_not for row in rows] == ["", ""]
    assert [row.ran for row in rows] == ["ring", read_back.HAN]
    # What han says of itself: it decides on all of these calls but the one with a rule of tuned.
    assert "allreduce size:65536 algorithm:2 simple" in said
    assert "allreduce size:1024 algorithm:0" in said
    assert "allreduce size:8192 " not in said
    # Calls without a rule run as they do without the files.
    plain, _ = record_on_nodes(calls, {})
    with_rule = {("allreduce", 8192), ("allreduce", 65536)}
    for call in found.keys() - with_rule:
        assert found[call] == plain[call]
        assert (found[call].elsewhere > 0) == (call[0] != "scan")
    # Han's way shows: this algorithm calls more functions than its own choice does.
    assert all(found[call] != plain[call] for call in with_rule)


@pytest.mark.wide
@pytest.mark.emulated
def test_a_rule_that_han_does_not_hand_over_is_found(
    tmp_path: Path, record_on_nodes: OnNodes
) -> None:
    file = algorithms.tuning_file(libraries.find("openmpi5"), tmp_path / "rules.conf", 4)
    file.write({"bcast": {1024: 7}})
    asked = Asked("bcast", 1024, "knomial")
    reproducible = Asked("allreduce", 8192, "han:reproducible")

    def row(asked: Asked, settings: Mapping[str, str]) -> read_back.Row:
        found, _ = record_on_nodes([f"{asked.collective}:{asked.bytes}"], settings)
        return read_back.judge(asked, found[asked.collective, asked.bytes])

    taken = file.variables()
    assert row(asked, taken).why_not == ""
    alone = {name: value for name, value in taken.items() if "han" not in name}
    assert row(asked, alone).why_not.endswith("on communicators of its own (han does)")
    # In timing launches: han is off, or runs the algorithm that is named.
    assert row(asked, file.forced(7)).why_not == ""
    assert row(reproducible, {}).ran == read_back.HAN
    assert row(reproducible, file.forced(103)).handed_over
