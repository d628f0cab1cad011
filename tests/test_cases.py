"""The cases that verify a variant."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from support import mostly_wide

from collforge import case, cases, layout
from collforge.errors import CollforgeError
from collforge.generator import manifest
from collforge.variant import split_name


def chosen(made: manifest.Manifest, name: str, at: str, tier: str) -> list[case.Case]:
    collective, family = name.split(":")
    (variant,) = (v for v in made.variants_of(collective) if v.family == family)
    texts = list(cases.verification_cases(made, variant, layout.from_name(at), tier))
    assert len(set(texts)) == len(texts)
    return [case.parse(text) for text in texts]


def dimensions(one: case.Case) -> dict[str, Any]:
    kind = one.options.get("type", "int")
    return {
        "operand": (kind, one.options.get("op", "")),
        "count": one.bytes // cases.TYPE_BYTES[kind],
        "root": one.options.get("root", "0"),
        "in_place": "in_place" in one.options,
        "uneven": "uneven" in one.options,
        "variant": one.variant,
    }


@pytest.mark.parametrize("name", ["reduce:full_lane", "gather:hierarchical"])
@pytest.mark.parametrize("tier", ["small", "full"])
def test_every_pair_of_values_is_verified(made: manifest.Manifest, name: str, tier: str) -> None:
    rows = [dimensions(one) for one in chosen(made, name, "3+1", tier)]
    for a, b in itertools.combinations(rows[0], 2):
        pairs = {(row[a], row[b]) for row in rows}
        assert pairs == {(x[a], y[b]) for x in rows for y in rows}, (a, b)
    assert {row["root"] for row in rows} == {"0", "1", "2", "3"}
    assert {row["in_place"] for row in rows} == {False, True}


def test_full_has_the_counts_types_ops_and_points_that_matter(made: manifest.Manifest) -> None:
    rows = [dimensions(one) for one in chosen(made, "reduce:full_lane", "2x4", "full")]
    assert {row["count"] for row in rows} == {0, 1, 3, 4, 5, 7, 8, 9, 1009, 20011}
    assert {row["operand"] for row in rows} == {
        *(("int", op) for op in ("sum", "max")),
        *(("double", op) for op in ("sum", "max")),
        *((kind, "affine") for kind in ("pair", "strided", "neglb")),
    }
    moved = [dimensions(one) for one in chosen(made, "bcast:full_lane", "2x4", "full")]
    assert {row["operand"][0] for row in moved} == set(cases.TYPE_BYTES)
    points = {split_name(row["variant"])[1] for row in rows}
    native = "lane_algorithm=native,radix=0,segment_bytes=0,window=0,node_phase=shared,overlap=no"
    assert {f"lanes={lanes},{native}" for lanes in (0, 1, 2)} <= points
    numbers = ("segment_bytes=64", "segment_bytes=65", "window=1", "window=2", "window=16")
    for number in (*numbers, "lanes=0", "lanes=1", "lanes=2"):
        found = {
            row["count"] for row in rows if number in row["variant"].split("[")[1][:-1].split(",")
        }
        assert found == {row["count"] for row in rows}, number


@pytest.mark.parametrize("tier", cases.TIERS)
def test_uneven_blocks_meet_everything(made: manifest.Manifest, tier: str) -> None:
    for variant in made.variants:
        entry = made.collective(variant.collective)
        if entry.varies == "no":
            continue
        rows = [
            dimensions(one)
            for one in chosen(made, f"{entry.name}:{variant.family}", "3+1", tier)
            if one.bytes > 0
        ]
        for other in ("operand", "count", "root", "in_place", "variant"):
            pairs = {(row[other], row["uneven"]) for row in rows}
            assert pairs == {(row[other], form) for row in rows for form in (False, True)}, other


@pytest.mark.parametrize("tier", mostly_wide(cases.TIERS, *cases.TIERS[:2]))
def test_where_nothing_moves_each_rank_is_late_once(made: manifest.Manifest, tier: str) -> None:
    silent = {entry.name for entry in made.collectives if entry.moves_nothing}
    for variant in made.variants:
        name = f"{variant.collective}:{variant.family}"
        rows = chosen(made, name, "3+1", tier) or chosen(made, name, "1x4", tier)
        if variant.collective in silent:
            assert {one.bytes for one in rows} == {1}
            assert {one.options["seed"] for one in rows} == {"0", "1", "2", "3"}
        else:
            assert not any("seed" in one.options for one in rows)


def test_paranoid_is_everything_that_full_is(made: manifest.Manifest) -> None:
    full, paranoid = (
        {str(one) for one in chosen(made, "scan:full_lane", "2x2", tier)}
        for tier in ("full", "paranoid")
    )
    assert full < paranoid


@pytest.mark.parametrize("at", ["4x2", "2x2", "3+1", "2+2+1", "cyclic:2x3"])
def test_full_is_affordable_and_applies(made: manifest.Manifest, at: str) -> None:
    total = 0
    for variant in made.variants:
        for one in chosen(made, f"{variant.collective}:{variant.family}", at, "full"):
            commutative = one.options.get("op") != "affine"
            facts = made.facts(one.collective, layout.from_name(at), one.bytes, commutative)
            assert variant.applies(facts)
            total += 1
    assert 1000 < total < 60000


@pytest.mark.parametrize("family", ["full_lane", "hierarchical"])
def test_what_a_rank_carries_for_its_node_is_counted_by_an_int(
    made: manifest.Manifest, family: str
) -> None:
    """An all-to-all collects the vectors of two ranks here: at 2^28 bytes a block, 2^31 bytes."""
    (entry,) = (v for v in made.variants_of("alltoall") if v.family == family)
    applies = {
        size: entry.applies(made.facts("alltoall", layout.from_name("2x2"), size))
        for size in (1 << 27, 1 << 28)
    }
    assert applies == {1 << 27: True, 1 << 28: False}


def test_an_unknown_tier_is_refused(made: manifest.Manifest) -> None:
    with pytest.raises(CollforgeError, match=r"unknown tier 'ful' \(did you mean full"):
        chosen(made, "scan:full_lane", "2x2", "ful")


def test_a_variant_that_is_named_in_part_takes_the_first_values(made: manifest.Manifest) -> None:
    (entry,) = (v for v in made.variants_of("bcast") if v.family == "full_lane")
    whole = entry.completed("full_lane[lane_algorithm=chain,window=4]")
    assert "lanes=0,lane_algorithm=chain" in whole and "window=4,node_phase=native" in whole
    assert entry.completed(whole) == whole
    assert "segment_bytes=0" in entry.completed("full_lane"), "has no meaning with native"
    assert "binomial,radix=2," in entry.completed("full_lane[lane_algorithm=binomial]")
    with pytest.raises(CollforgeError, match=r"segment_byte.*did you mean segment_bytes"):
        entry.completed("full_lane[segment_byte=1]")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("lanes=99", "lanes=99 is not below min_node_size, here 2: it would run as lanes=0"),
        ("lanes=2", "it would run as lanes=0"),
        ("lanes=x", "lanes=x is no number from 1 on, nor 0"),
        ("lanes=-1", "no number from 1 on"),
        ("lanes=99999999999", "no number from 1 on"),
        ("lane_algorithm=chian", r"value of lane_algorithm 'chian' \(did you mean chain"),
        ("segment_bytes=4096", "needs lane_algorithm=chain"),
    ],
)
def test_a_value_that_would_run_as_another_is_refused(
    made: manifest.Manifest, text: str, why: str
) -> None:
    (entry,) = (v for v in made.variants_of("bcast") if v.family == "full_lane")
    with pytest.raises(CollforgeError, match=why):
        entry.completed(f"full_lane[{text}]", layout.from_name("4x2").facts())


def test_a_value_that_means_what_it_says_is_taken(made: manifest.Manifest) -> None:
    (entry,) = (v for v in made.variants_of("bcast") if v.family == "full_lane")
    at = layout.from_name("2x4").facts()
    assert "lanes=3," in entry.completed("full_lane[lanes=3]", at), "though not searched"
    assert "lanes=99," in entry.completed("full_lane[lanes=99]"), "the layout is not known"
    chain = "full_lane[lane_algorithm=chain,segment_bytes={}]"
    for number in (64, 1000000000):
        whole = entry.completed(chain.format(number), {**at, "bytes": 1024})
        assert f"segment_bytes={number}," in whole, "all of it in one segment"
    assert entry.completed("full_lane[segment_bytes=0]", at) == entry.completed("full_lane")
    (shift,) = (v for v in made.variants_of("bcast") if v.family == "rank_shift")
    with pytest.raises(CollforgeError, match="carrier=threads needs threads > 1"):
        shift.completed("rank_shift[carrier=threads]", at)


@pytest.mark.parametrize("tier", cases.TIERS)
@pytest.mark.parametrize("at", ["2x1", "4x2", "3+1", "2x2x2"])
def test_what_is_verified_means_what_it_says(made: manifest.Manifest, tier: str, at: str) -> None:
    facts = layout.from_name(at).facts()
    for variant in made.variants:
        if tier == "paranoid" and variant.collective not in ("bcast", "scan"):
            continue
        for one in chosen(made, f"{variant.collective}:{variant.family}", at, tier):
            inside = split_name(one.variant)[1]
            given = dict(part.split("=") for part in inside.split(",") if part)
            for p in variant.parameters:
                below = facts.get(p.below, 2**31)
                assert not given[p.name].isdigit() or int(given[p.name]) < max(1, below)
