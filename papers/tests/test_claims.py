"""Verdicts: what is judged, from what, and when nothing can be said."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from collforge.errors import CollforgeError
from collforge.papers import figures
from collforge.papers.figures import claims, rows, values
from collforge.papers.figures.claims import DOWN, FAILS, HOLDS, OPEN, Claim, Grid, judge
from collforge.papers.figures.rows import Key, Row

FIGURES = figures.read()
CLAIMS = [
    pytest.param(figure, claim, id=f"{name}, {number}")
    for name, figure in FIGURES.items()
    for number, claim in enumerate(figure.claims, 1)
]
STEADY = (0.99, 1.0, 1.01, 1.0)
WILD = (0.02, 1.0, 50.0, 1.0)
"""What launches multiply a value by."""


# ---- every claim of every figure -----------------------------------------------------------------


@pytest.mark.parametrize(("figure", "claim"), CLAIMS)
def test_each_claim_can_have_each_verdict(figure: figures.Figure, claim: Claim) -> None:
    """With rows that fulfil it, that break it, and that cannot tell: two launches, wild ones, doubted ones."""
    for is_so, launches, doubt, word in (
        (True, STEADY, "", HOLDS),
        (False, STEADY, "", FAILS),
        (True, STEADY[:2], "", OPEN),
        (True, WILD, "", OPEN),
        (True, STEADY, "more threads than cores", OPEN),
    ):
        made = list(invented(claim, figure.names, is_so, launches, doubt))
        found = judge(claim, Grid(made, figure.names, claim.needs))
        assert found.word == word, (is_so, launches, doubt, found)
    assert judge(claim, Grid([], figure.names)).word == OPEN


def invented(
    claim: Claim, names: Sequence[str], is_so: bool, launches: Sequence[float], doubt: str
) -> Iterator[Row]:
    """Rows at three places of the claim's part of the figure, which fulfil it or break it."""
    ladder = claim.order or (claim.of, claim.over)
    used = {name for one in ladder for name in one}
    axes = {name: places(claim, name) for name in names if name not in used}
    if claim.along:
        axes[claim.along] = places(claim, claim.along)
    for where in (dict(zip(axes, point)) for point in itertools.product(*axes.values())):
        step = wanted(claim, where, axes, is_so)
        # A growth is of two places: launches that are alike at both of them would cancel out.
        grows = claim.along and not claim.crosses
        varied = () if grows and where[claim.along] != axes[claim.along][-1] else launches
        if not claim.order and not claim.over:
            yield row(claim, {**where, **scalars(claim.of)}, step, varied, doubt)
            continue
        for number, one in enumerate(ladder):
            factor = step ** (len(ladder) - 1 - number)
            yield row(claim, {**where, **scalars(one)}, factor, () if number else varied, doubt)


def places(claim: Claim, name: str) -> Sequence[Key]:
    part = claim.where.get(name, claim.within if name == claim.along else None)
    if part is None:
        return (1, 2, 4)
    if isinstance(part, (str, int, float)):
        return (part,)
    return part if isinstance(part[0], str) else (part[0], (part[0] + part[1]) / 2, part[1])


def wanted(
    claim: Claim, where: Mapping[str, Key], axes: Mapping[str, Sequence[Key]], is_so: bool
) -> float:
    """The value at a place."""
    if claim.crosses:
        at = list(axes[claim.along]).index(where[claim.along])
        above = (at == 0) == (claim.crosses == DOWN) if is_so else at == 0
        above = above if is_so or claim.crosses == "up" else at > 0
        return 3.0 if above else 1 / 3
    least = -math.inf if claim.at_least is None else claim.at_least
    most = math.inf if claim.at_most is None else claim.at_most
    if math.isinf(most):
        good, bad = (least * 2 or 1.0), (least / 2 or -1.0)
    elif math.isinf(least):
        good, bad = (most / 2 or -1.0), (most * 2 or 1.0)
    else:
        good, bad = (least + most) / 2, most * 2 or 1.0
    value = good if is_so else bad
    if not claim.along:
        return value
    first, last = axes[claim.along][0], axes[claim.along][-1]
    return 1.0 if where[claim.along] == first else value if where[claim.along] == last else 1.0


def scalars(wanted: Mapping[str, Any]) -> dict[str, Key]:
    return {n: v if isinstance(v, (str, int, float)) else v[0] for n, v in wanted.items()}


def row(
    claim: Claim, keys: Mapping[str, Key], value: float, launches: Sequence[float], doubt: str
) -> Row:
    samples = [value * one for one in launches] if launches else [value] * len(STEADY)
    return Row(keys, {claim.value: samples}, doubt)


def test_every_claim_has_something_to_judge() -> None:
    for figure in FIGURES.values():
        assert bool(figure.claims) == (not figure.none), figure.name
        for claim in figure.claims:
            bounded = claim.at_least is not None or claim.at_most is not None
            assert bounded != bool(claim.crosses) or bool(claim.order), (figure.name, claim.says)
            assert not (claim.order and (claim.of or claim.over)), (figure.name, claim.says)
            assert not claim.crosses or claim.along, (figure.name, claim.says)
            assert 0.5 <= claim.share <= 1, (figure.name, claim.says)
            assert claim.needs in ("", claims.RDMA, claims.SOFTWARE), (figure.name, claim.says)


# ---- the rules -----------------------------------------------------------------------------------


def made(values: Mapping[int, Sequence[float]], doubts: Mapping[int, str] | None = None) -> Grid:
    found = [Row({"x": x}, {"v": v}, (doubts or {}).get(x, "")) for x, v in values.items()]
    return Grid(found, ("x",))


SURE = [2.0, 2.02, 1.98]


def test_one_cell_that_breaks_it_is_enough() -> None:
    """The best cell does not decide; the worst is shown."""
    found = judge(
        Claim("", "v", at_least=1.5), made({1: [9.0, 9.1, 9.2], 2: SURE, 3: [1.0, 1.01, 1.0]})
    )
    assert found.word == FAILS and found.reason.startswith("1 (") and "at x 3" in found.reason
    assert "so in 2 of 3 cells, not in 1" in found.reason


@pytest.mark.parametrize(
    ("network", "needs", "words"),
    [
        (claims.SOFTWARE, claims.RDMA, (OPEN, OPEN)),
        (claims.RDMA, claims.RDMA, (HOLDS, FAILS)),
        ("", claims.RDMA, (HOLDS, OPEN)),
        ("", "", (HOLDS, FAILS)),
    ],
)
def test_a_network_that_a_claim_is_about(network: str, needs: str, words: tuple[str, str]) -> None:
    """Where the network is not known, what needs one of them is not refuted."""
    grid = Grid(made({1: SURE}).rows, ("x",), network)
    bounds = (1.5, 3.0)
    found = [judge(Claim("", "v", at_least=bound, needs=needs), grid).word for bound in bounds]
    assert tuple(found) == words


def test_equal_is_not_faster() -> None:
    assert judge(Claim("", "v", at_least=1.0), made({1: [1.0, 1.0, 1.0]})).word == OPEN


def test_half_of_the_cells_is_not_most() -> None:
    low = [1.0, 1.01, 1.0]
    claim = Claim("", "v", at_least=1.5, share=0.5)
    assert judge(claim, made({1: SURE, 2: SURE, 3: low, 4: low})).word == FAILS
    assert judge(claim, made({1: SURE, 2: SURE, 3: SURE, 4: low})).word == HOLDS


def test_a_growth_over_one_place() -> None:
    found = [Row({"x": 1, "n": n}, {"v": SURE}) for n in (1, 2)]
    claim = Claim("", "v", along="x", at_least=1.2)
    assert judge(claim, Grid(found, ("x",))).word == OPEN


def test_noise_that_is_of_some_cells_alone() -> None:
    """Of cells exactly at the bound, some noisier than the others, hardly one is said to be surely outside."""
    draw = random.Random(7)
    wrong = 0
    for _ in range(200):
        values = {
            n: [math.exp(draw.gauss(0, 0.2 if n < 4 else 0.01)) for _ in range(3)]
            for n in range(40)
        }
        wrong += judge(Claim("", "v", at_least=1.0), made(values)).word == FAILS
    assert wrong <= 15


def test_a_share_of_the_cells() -> None:
    grid = made({1: SURE, 2: SURE, 3: [1.0, 1.01, 1.0]})
    assert judge(Claim("", "v", at_least=1.5, share=0.5), grid).word == HOLDS
    assert judge(Claim("", "v", at_least=1.5, share=0.7), grid).word == FAILS


def test_doubted_cells_certify_nothing_and_are_named() -> None:
    doubts = {2: "no size takes the wanted time"}
    grid = made({1: SURE, 2: SURE}, doubts)
    found = judge(Claim("", "v", at_least=1.5), grid)
    assert (found.word, found.reason.split(":")[0]) == (OPEN, "no size takes the wanted time")
    doubted = made({1: SURE, 2: SURE, 3: SURE}, doubts)
    assert judge(Claim("", "v", at_least=1.5, share=0.5), doubted).word == HOLDS


def test_ratios_of_overlap_are_never_averaged_as_logarithms() -> None:
    row = rows.Row({}, {"values": [0.1, 1.0, 1.0], "seconds": [0.1, 1.0, 1.0]})
    for quantity, mean in (("values", 0.7), ("seconds", 10 ** (-1 / 3))):
        (one,) = values.alike([values.value(row, quantity)], quantity)
        assert one.mean == pytest.approx(mean)


def test_a_total_is_taken_launch_by_launch() -> None:
    row = rows.Row({}, {"get": [1.0, 2.0, math.nan], "flush": [3.0, 2.0, 1.0]})
    assert values.total(row, ["get", "flush"]).samples == [4.0, 4.0]
    assert values.total(row, ["get", "put"]).doubt


def test_a_ratio_is_taken_launch_by_launch() -> None:
    """The launches differ by a factor of ten, the ratio does not."""
    rows_ = [
        Row({"x": 1, "who": "a"}, {"v": [1.0, 10.0, 5.0]}),
        Row({"x": 1, "who": "b"}, {"v": [2.0, 20.2, 9.9]}),
    ]
    claim = Claim("", "v", of={"who": "b"}, over={"who": "a"}, at_least=1.9, at_most=2.1)
    found = judge(claim, Grid(rows_, ("x", "who")))
    assert found.word == HOLDS and found.reason.startswith("2 (")


def test_a_row_that_is_missing_or_ambiguous() -> None:
    one = Row({"x": 1, "who": "b"}, {"v": SURE})
    claim = Claim("", "v", of={"who": "b"}, over={"who": "a"}, at_least=1)
    found = judge(claim, Grid([one], ("x", "who")))
    assert found.word == OPEN and "nothing was measured of who a" in found.reason
    both = [Row({"x": 1, "who": "a", "n": n}, {"v": SURE}) for n in (1, 2)]
    with pytest.raises(CollforgeError, match="2 rows match"):
        judge(claim, Grid([one, *both], ("x", "who")))


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({1: [0.5, 0.51, 0.5], 2: [1.0, 1.1, 0.9], 4: SURE}, HOLDS),
        ({1: SURE, 2: SURE, 4: [0.5, 0.51, 0.5]}, FAILS),  # the reverse
        ({1: SURE, 2: SURE, 4: SURE}, FAILS),  # it never crosses
        ({1: [1.0, 1.1, 0.9], 2: [1.0, 1.1, 0.9], 4: SURE}, OPEN),
        ({1: [0.5, 0.51, 0.5], 2: SURE, 3: [0.5, 0.51, 0.5], 4: SURE}, FAILS),  # back and forth
    ],
)
def test_a_crossing(values: Mapping[int, Sequence[float]], word: str) -> None:
    assert judge(Claim("", "v", along="x", crosses="up"), made(values)).word == word


def test_where_it_crosses() -> None:
    grid = made({1: [0.5, 0.51, 0.5], 2: [0.5, 0.51, 0.5], 8: SURE, 16: SURE})
    assert judge(Claim("", "v", along="x", crosses="up", within=(2, 4)), grid).word == HOLDS
    assert judge(Claim("", "v", along="x", crosses="up", within=(8, 16)), grid).word == FAILS
    wide = made({1: [0.5, 0.51, 0.5], 64: [1.0, 1.1, 0.9], 4096: SURE})
    assert judge(Claim("", "v", along="x", crosses="up", within=(64, 128)), wide).word == OPEN


def test_growth_is_between_the_ends() -> None:
    grid = made({4: SURE, 1: [1.0, 1.01, 0.99], 2: [9.0, 9.0, 9.1]})
    assert judge(Claim("", "v", along="x", at_least=1.8), grid).word == HOLDS
    assert judge(Claim("", "v", along="x", at_least=2.2), grid).word == FAILS


def test_negative_values_have_intervals_too() -> None:
    grid = made({1: [-0.1, 0.0, 0.1], 2: [0.05, 0.1, 0.0]})
    assert judge(Claim("", "v", at_most=0.8), grid).word == HOLDS
    assert judge(Claim("", "v", at_least=0.8), grid).word == FAILS


# ---- rows ----------------------------------------------------------------------------------------


def test_the_rows_of_a_probe() -> None:
    document = {
        "rows": [
            {
                "setting": {"mode": "a", "vcis": 2},
                "rates": [1.0, None],
                "doubt": "few cores",
                "parts": {"get": [3.0, 4.0]},
                "words": ["x"],
                "none": None,
            }
        ]
    }
    (found,) = rows.read(document, "4x2")
    where = {"layout": "4x2", "nodes": 4, "ranks": 8}
    assert found.keys == {**where, "setting.mode": "a", "setting.vcis": 2}
    assert found.quantities["parts.get"] == [3.0, 4.0] and math.isnan(found.quantities["rates"][1])
    assert found.doubt == "few cores"
    first = rows.table([found])[0]
    assert (first["launch"], first["rates"], first["parts.get"]) == (1, 1.0, 3.0)


def test_the_rows_of_bench() -> None:
    samples = {"native": [[2.0, 4.0, 3.0], []], "a[x=1,y=b]": [[1.0], [5.0]]}
    document = {"rows": [{"collective": "bcast", "bytes": 8, "samples": samples}]}
    native, other = rows.read(document, "")
    assert native.keys == {
        "collective": "bcast",
        "bytes": 8,
        "family": "native",
        "variant": "native",
    }
    assert native.quantities["seconds"][0] == 3.0 and math.isnan(native.quantities["seconds"][1])
    assert (other.keys["family"], other.keys["x"], other.keys["y"]) == ("a", 1, "b")


def test_what_matches() -> None:
    one = Row({"n": 4, "w": "a", "ok": True}, {})
    assert one.matches({"n": [1, 4], "w": ["a", "b"], "ok": True})
    assert not one.matches({"n": [5, 9]}) and not one.matches({"w": "b"})
    assert not one.matches({"missing": 1}) and not one.matches({"w": [1, 2]})


def test_the_verdicts_words() -> None:
    """docs/papers.md names them."""
    assert (claims.HOLDS, claims.FAILS, claims.OPEN) == ("holds", "does not hold", "cannot be told")


def test_a_growth_over_layouts() -> None:
    """Layouts differ with the nodes, and must not tell the places of the axis apart."""
    found = [
        Row({"nodes": n, "layout": f"{n}x2"}, {"v": [n * one for one in STEADY]}) for n in (1, 2, 4)
    ]
    claim = Claim("it grows", "v", along="nodes", at_least=2.0)
    assert judge(claim, Grid(found, ("nodes", "layout"))).word == HOLDS
