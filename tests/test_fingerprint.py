"""The fingerprint of a variant: which changes of C affect it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support import SHARED_HOME

from collforge.db import Choice, Result, RunRecord, Store
from collforge.generator import manifest
from collforge.generator.fingerprint import Sources, of_parts, runtime_sources
from collforge.place import Place
from collforge.tuner.cli.commands.report import explain_stale
from collforge.variant import Variant

PLACE = Place("emulated", "openmpi", "Open MPI v4.1.4", "2x2")
RING = "lane/algorithms/ring.c"
RUNTIME = runtime_sources()
HEADER = "lane_algorithms.h"
Changed = Callable[[str, str, str], set[str]]


@pytest.fixture(scope="module")
def generated(made: manifest.Manifest) -> dict[str, str]:
    """The text of each variant, with the header of the lane algorithms."""
    folder = SHARED_HOME / "generated"
    texts = {path.stem: path.read_text() for path in (folder / "variants").glob("*.c")}
    return {**texts, HEADER: (folder / HEADER).read_text()}


def parts_of_all(generated: dict[str, str], files: dict[str, str]) -> dict[str, dict[str, str]]:
    """The file hashes of each variant, with these files of the runtime."""
    sources = Sources({**files, HEADER: generated[HEADER]})
    return {name: sources.parts(text) for name, text in generated.items() if name != HEADER}


@pytest.fixture(scope="module")
def changed(generated: dict[str, str]) -> Changed:
    """changed(file, old, new): the variants whose fingerprint changes with this edit of the runtime."""
    before = parts_of_all(generated, RUNTIME)

    def find(source: str, old: str, new: str) -> set[str]:
        assert RUNTIME[source].count(old) > 0
        after = parts_of_all(generated, {**RUNTIME, source: RUNTIME[source].replace(old, new)})
        return {name for name in before if before[name] != after[name]}

    return find


def test_a_change_of_an_algorithm_reaches_what_may_run_it(changed: Changed) -> None:
    found = changed(RING, "at->size - 1", "at->size - 2")
    assert {"full_lane_allreduce", "full_lane_reduce_scatter"} <= found
    assert not {name for name in found if name.endswith(("_bcast", "_barrier", "_scan"))}
    # Through a function in another file.
    assert "full_lane_bcast" in changed("lane/ring.c", "lead + i", "lead - i")


def test_a_change_of_a_step_reaches_what_takes_it(changed: Changed) -> None:
    found = changed("data/shuffle.c", "cf_call_receive(", "cf_call_receive_all(")
    assert found
    assert "full_lane_bcast" not in found
    # In a macro.
    assert "full_lane_allreduce" in changed("data/unit.c", "left + right", "left - right")


def test_comments_and_layout_change_nothing(changed: Changed, generated: dict[str, str]) -> None:
    assert not changed(RING, "Each part is summed", "Each part is summed up")
    assert not changed(RING, "    ", "\t \n")
    name = "full_lane_bcast"
    sources = Sources(RUNTIME)
    flat = generated[name].replace("    ", " ")
    assert sources.parts(flat) == sources.parts(generated[name])
    noted = generated[name].replace("static int run", "/* a note */ static int run")
    assert sources.parts(noted) == sources.parts(generated[name])


def test_what_the_search_tries_changes_nothing(generated: dict[str, str]) -> None:
    text = generated["full_lane_bcast"]
    more = text.replace("segment_bytes_values[] = {1024,", "segment_bytes_values[] = {512, 1024,")
    assert more != text
    assert Sources(RUNTIME).parts(more) == Sources(RUNTIME).parts(text)


def test_what_the_variant_does_counts(generated: dict[str, str]) -> None:
    text = generated["full_lane_bcast"]
    other = text.replace("facts->nodes > 1", "facts->nodes > 2")
    assert other != text
    parts, others = Sources(RUNTIME).parts(text), Sources(RUNTIME).parts(other)
    assert {source for source in parts if parts[source] != others[source]} == {"variant"}
    assert of_parts(parts) != of_parts(others)


def test_every_function_of_an_algorithm_is_found(generated: dict[str, str]) -> None:
    """The reader of C must find each function, also those that return a struct."""
    known = Sources(RUNTIME).everywhere
    assert {
        "cf_ring_allgather",
        "cf_send_side",
        "cf_chunks_find",
        "CF_TRY_OR_END",
    } <= known.keys()
    algorithms = {source for source in RUNTIME if source.startswith("lane/algorithms/")}
    parts = parts_of_all(generated, RUNTIME)
    reached = {source for made_of in parts.values() for source in made_of}
    assert algorithms <= reached


def test_a_report_says_why_a_winner_is_stale(
    made: manifest.Manifest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (entry,) = [v for v in made.variants_of("bcast") if v.family == "full_lane"]
    variant = Variant("bcast", "full_lane", "lane_algorithm=chain", "old")
    result = Result(variant, "bcast@2x2,bytes=8", 8, True, "", (1.0,))
    run = RunRecord("a", PLACE, 2, 4, "2026-01-02T03:04:05Z", "0", "0", (), 7, (result,))
    with Store(tmp_path / "db") as store:
        store.record_run(run)
        store.replace_winners(PLACE, "bcast", [Choice(8, variant, 2.0, 1.9, 2.1, 3)])
        explain_stale(made, store, PLACE, ["bcast"])
        store.record_sources("old", {**entry.parts, "lane/ring.c": "another"})
        explain_stale(made, store, PLACE, ["bcast"])
        explain_stale(made, store, PLACE, ["reduce"])
        lines = capsys.readouterr().out.splitlines()
        assert "did not store the files of variants" in lines[0]
        assert len(lines) == 2
        assert lines[1].endswith("is stale: since it was verified lane/ring.c changed")
        current = replace(variant, fingerprint=entry.fingerprint)
        store.record_run(replace(run, uuid="b", results=(replace(result, variant=current),)))
        store.replace_winners(PLACE, "bcast", [Choice(8, current, 2.0, 1.9, 2.1, 3)])
        explain_stale(made, store, PLACE, ["bcast"])
        assert not capsys.readouterr().out
