"""Expected times and thresholds: the threshold of a winner follows from its own spread."""

from __future__ import annotations

import json
import math
import random
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from invented_tunings import PLACE, SIZES, Tuning

from collforge.db import Store
from collforge.generator.manifest import Manifest
from collforge.reference import Reference
from collforge.tuner.cli import main, tables
from collforge.tuner.decide.evidence import duration_class
from collforge.tuner.site import expected_times
from collforge.variant import Variant

SEED = 26
WINNERS = 20
NIGHTS = 300
CHANCE = 0.01


def test_the_limit_follows_from_the_spread_and_the_numbers_of_launches() -> None:
    stored = Reference(2.0, 0.1, 4, 8)
    rise = stored.rise([2.0, 4.0], 0.025)
    # Student's t of 8 degrees of freedom: 2.306 for the two-sided 95 %.
    assert rise.limit == pytest.approx(math.exp(2.306 * 0.1 * math.sqrt(1 / 4 + 1 / 2)), rel=1e-4)
    assert (rise.then, rise.now) == (2.0, pytest.approx(math.sqrt(8)))
    assert rise.factor == pytest.approx(math.sqrt(2))
    assert rise.is_finding
    assert not stored.rise([2.0, 2.1], 0.025).is_finding
    assert not stored.rise([1.0, 1.0], 0.025).is_finding, "faster is no finding"
    assert stored.inverse.rise([1 / 1.0, 1 / 1.0], 0.025).is_finding, "but a smaller speed-up is"
    assert math.isfinite(Reference(2.0, 0.5, 2, 1).rise([2.0], 1e-6).limit)


def night(draw: random.Random, factor: float) -> list[bool]:
    """Whether each winner is found, whose launches differ by 3 to 15 % and now take `factor` of the time."""
    spreads = [draw.uniform(0.03, 0.15) for _ in range(WINNERS)]
    winner = Variant("bcast", "ring", "", "ab")
    history = {
        f"bcast@4x2,bytes={8 << number}": [
            {Variant("bcast"): [1.0], winner: [draw.lognormvariate(0, spread)]} for _ in range(4)
        ]
        for number, spread in enumerate(spreads)
    }
    pool = expected_times.pooled(history, expected_times.log_seconds)
    found = []
    for launches, spread in zip(history.values(), spreads):
        logs = [expected_times.log_seconds(winner, one) for one in launches]
        now = [factor * draw.lognormvariate(0, spread) for _ in range(3)]
        stored = expected_times.reference(logs, pool[duration_class(1.0)])
        found.append(stored.rise(now, CHANCE / WINNERS).is_finding)
    return found


@pytest.mark.parametrize(("factor", "least", "most"), [(1.0, 0.0, 0.04), (2.0, 1.0, 1.0)])
def test_an_unchanged_machine_is_seldom_a_finding_and_half_a_rail_always(
    factor: float, least: float, most: float
) -> None:
    print(f"seed {SEED}")
    draw = random.Random(SEED)
    share = sum(any(night(draw, factor)) for _ in range(NIGHTS)) / NIGHTS
    assert least <= share <= most, share


def test_noisy_winners_have_their_own_spread() -> None:
    """And not that of the others, which would be a finding every night."""
    quiet = expected_times.reference([0.0, 0.01, -0.01, 0.0], 0.01**2)
    noisy = expected_times.reference([0.0, 0.3, -0.3, 0.1], 0.01**2)
    assert (quiet.df, noisy.df) == (9, 3)
    assert noisy.spread == pytest.approx(0.25)
    assert not noisy.rise([1.5, 1.5, 1.5], CHANCE).is_finding


def test_winners_as_json_have_their_references(
    made: Manifest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Tuning(made).store(tmp_path / "winners.db", launches=6)
    assert main.main(["winners", "--json", "-", "--db", str(path)]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["bytes"] for row in rows] == list(SIZES)
    for row in rows:
        speed_up, seconds = row["references"]["speed_up"], row["references"]["seconds"]
        assert speed_up["mean"] == pytest.approx(2.0, rel=0.05)
        assert seconds["mean"] == pytest.approx(1e-3, rel=0.05)
        assert {speed_up["launches"], seconds["launches"]} == {4}, "two of six searched"
        assert 0 < seconds["spread"] < 0.03
    with Store(path, create=False) as store:
        read = expected_times.read(store, store.winners())
    assert {asdict(key[0])["system"] for key in read} == {PLACE.system}


def test_a_winner_without_measurements_has_none(made: Manifest, tmp_path: Path) -> None:
    path = Tuning(made).store(tmp_path / "winners.db")
    with Store(path, create=False) as store:
        winner = store.winners()[0]
        other = replace(winner, choice=replace(winner.choice, bytes=7))
        found = expected_times.read(store, [winner, other])
    assert [nbytes for *_, nbytes in found] == [winner.choice.bytes]
    rows = tables.winner_rows([winner, other], (), found)
    assert [row["references"] is None for row in rows] == [True, False]
