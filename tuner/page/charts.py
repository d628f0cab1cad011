"""The charts of the page: Vega-Lite specifications with named data, that page.js fills with the chosen rows."""

from __future__ import annotations

from typing import Any

import altair as alt

TIMES, MAP, DRIFT, GAINS = "times", "map", "drift", "gains"
"""The names of the charts and of their data."""

# Okabe and Ito's colours, which the colour-blind tell apart, in an order for light and dark pages.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
WHAT = ["tuned", "native", "native's best algorithm", "limit of the links"]
CONFIG = {
    "background": "transparent",
    "view": {"stroke": None},
    "axis": {"labelColor": "currentColor", "titleColor": "currentColor", "gridOpacity": 0.25,
             "labelFontSize": 12, "titleFontSize": 12, "domainColor": "currentColor"},
    "legend": {"labelColor": "currentColor", "titleColor": "currentColor", "labelLimit": 400,
               "orient": "bottom", "columns": 2, "labelFontSize": 12},
    "title": {"color": "currentColor"},
    "text": {"color": "currentColor"},
}  # fmt: skip

# 4096 as 4K. Sizes are powers of two, mostly.
BYTES = (
    "datum.value >= 1048576 ? format(datum.value / 1048576, '.3~g') + ' MiB' : "
    "datum.value >= 1024 ? format(datum.value / 1024, '.3~g') + ' KiB' : datum.value + ' B'"
)
SECONDS = (
    "datum.value >= 1 ? format(datum.value, '~g') + ' s' : "
    "datum.value >= 1e-3 ? format(datum.value * 1e3, '~g') + ' ms' : "
    "format(datum.value * 1e6, '~g') + ' us'"
)


def all_of_them() -> dict[str, dict[str, Any]]:
    """Name -> specification."""
    return {TIMES: times(), MAP: layout_map(), DRIFT: drift(), GAINS: gains()}


def times() -> dict[str, Any]:
    """Seconds of a call against bytes: tuned and native of each library, with intervals; the links' limit."""
    base = alt.Chart(alt.NamedData(TIMES)).encode(
        x=alt.X("bytes:Q", title="bytes", scale=alt.Scale(type="log", base=2, nice=False),
                axis=alt.Axis(labelExpr=BYTES)),
        color=alt.Color("library:N", title=None, scale=alt.Scale(range=COLOURS)),
    )  # fmt: skip
    y = alt.Y("seconds:Q", title="time of a call", scale=alt.Scale(type="log"),
              axis=alt.Axis(labelExpr=SECONDS, tickCount=5))  # fmt: skip
    dash = alt.StrokeDash("what:N", title=None, scale=alt.Scale(
        domain=WHAT, range=[[1, 0], [6, 3], [2, 2], [1, 4]]))  # fmt: skip
    shape = alt.Shape("what:N", title=None, scale=alt.Scale(
        domain=WHAT, range=["circle", "square", "triangle-up", "cross"]))  # fmt: skip
    lines = base.mark_line(strokeWidth=2).encode(y=y, strokeDash=dash)
    ends = base.mark_rule(strokeWidth=1.5).encode(
        y=alt.Y("low:Q", title="time of a call"), y2="high:Q"
    )
    points = base.mark_point(filled=True, size=60).encode(
        y=y, shape=shape, tooltip=_tips("what", "library", "size", "time", "gain", "variant",
                                        "evidence", "launches", "decided", "command"),
    )  # fmt: skip
    return _finished(lines + ends + points, 380)


def layout_map() -> dict[str, Any]:
    """Layout x size, coloured by the speed-up; a sign in each cell tells the evidence."""
    base = alt.Chart(alt.NamedData(MAP)).encode(
        x=alt.X("size:O", title="bytes", sort=alt.SortField("bytes")),
        y=alt.Y("layout:N", title="layout", sort=alt.SortField("order")),
    )
    cells = base.mark_rect(stroke="white", strokeWidth=1).encode(
        color=alt.Color("ratio:Q", title="times as fast as native", scale=alt.Scale(
            type="log", scheme="blues", domainMin=1, clamp=True)),
        tooltip=_tips("layout", "size", "gain", "variant", "evidence", "reason", "command"),
    )  # fmt: skip
    signs = base.mark_text(fontSize=13).encode(
        text="sign:N",
        color=alt.condition("datum.ratio > 2.5", alt.value("white"), alt.value("black")),
    )
    return _finished(cells + signs, {"step": 26})


def drift() -> dict[str, Any]:
    """Medians of launches over days, tuned and native, with P50 and P90 of each."""
    base = alt.Chart(alt.NamedData(DRIFT)).encode(
        x=alt.X("day:T", title=None, axis=alt.Axis(format="%Y-%m-%d", tickMinStep=864e5)),
        color=alt.Color("what:N", title=None, scale=alt.Scale(
            domain=["tuned", "native"], range=COLOURS)),
    )  # fmt: skip
    y = alt.Y("seconds:Q", title="median of a launch", scale=alt.Scale(zero=True),
              axis=alt.Axis(labelExpr=SECONDS))  # fmt: skip
    shape = alt.Shape("what:N", title=None, scale=alt.Scale(domain=["tuned", "native"]))
    points = base.mark_point(filled=True, size=50, opacity=0.6).encode(
        y=y, shape=shape, tooltip=_tips("what", "day", "time", "nodes")
    )
    middle = base.mark_line(strokeWidth=2).encode(
        y=alt.Y("median(seconds):Q", title="median of a launch")
    )
    return _finished(points + middle, 260)


def gains() -> dict[str, Any]:
    """The speed-up of each collective: the geometric mean over its decided problems, of each library."""
    chart = alt.Chart(alt.NamedData(GAINS)).mark_bar().encode(
        x=alt.X("gain:Q", title="times as fast as native", scale=alt.Scale(type="log", nice=False)),
        x2=alt.X2Datum(1),
        y=alt.Y("collective:N", title=None, sort="-x"),
        yOffset=alt.YOffset("library:N"),
        color=alt.Color("library:N", title=None, scale=alt.Scale(range=COLOURS)),
        tooltip=_tips("collective", "library", "gain", "problems"),
    )  # fmt: skip
    return _finished(chart, {"step": 12})


def _tips(*names: str) -> list[alt.Tooltip]:
    return [alt.Tooltip(f"{name}:N", title=name) for name in names]


def _finished(chart: Any, height: object) -> dict[str, Any]:
    made: dict[str, Any] = chart.properties(
        width="container", height=height, autosize={"type": "fit-x", "contains": "padding"}
    ).to_dict()
    return {**made, "config": CONFIG}
