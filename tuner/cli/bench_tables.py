"""The tables and the plot of `collforge bench`."""

from __future__ import annotations

import statistics
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from rich.table import Table

from collforge import units
from collforge.decision import MARGIN
from collforge.tuner.cli import tables
from collforge.tuner.decide.evidence import Interval
from collforge.tuner.run.benchmark import Row
from collforge.tuner.run.pictures import Line, LinePicture
from collforge.variant import split_name

LEFT = ("collective", "variant", "tuned choice")


def new_table(title: str, names: Iterable[str]) -> Table:
    """A table with these columns. Headings may wrap, so that numbers are not cut."""
    table = Table(title=title)
    for name in names:
        side: Literal["left", "right"] = "left" if name in LEFT else "right"
        heading = textwrap.fill(name.replace("_", "_ "), 8, break_long_words=False)
        table.add_column(heading, justify=side, no_wrap=True, min_width=4)
    return table


def print_rows(rows: Sequence[Row], where: str, standard: str) -> None:
    """What fits 80 columns. The gain is the time of native, or its stand-in, over that of the tuned choice."""
    legend = tables.Legend()
    table = tables.narrow(where)
    table.add_column("collective", no_wrap=True)
    for name in ("bytes", standard, "gain", "95 %"):
        table.add_column(name, justify="right", no_wrap=True)
    has_limit = any(row.limit for row in rows)
    if has_limit:
        table.add_column("of limit", justify="right", no_wrap=True)
    table.add_column("tuned choice", overflow="fold")
    for row in rows:
        used = "" if not row.limit else f"{shown(row.native_of_limit)}->{shown(row.of_limit)}"
        best = max(row.families, key=row.families.__getitem__, default="")
        none = f"none; the best: {best} {row.families[best]:.2f}" if best else "none"
        table.add_row(
            row.collective,
            units.format_size(row.bytes),
            units.format_seconds(row.native),
            f"{row.ratio:.2f}",
            f"{row.ratio_low:.2f}-{row.ratio_high:.2f}",
            *([used] if has_limit else []),
            none if row.tuned == "-" else legend.short(row.tuned),
        )
    tables.show(table)
    legend.show()
    _sum_up(rows, standard)


def _sum_up(rows: Sequence[Row], standard: str) -> None:
    slowest = min(rows, key=lambda row: row.ratio)
    typical = statistics.geometric_mean(row.ratio for row in rows)
    print(
        f"tuned over {standard}: {typical:.2f} on average, "
        f"{slowest.ratio:.2f} at least ({slowest.problem}); {rows[0].launches} launches"
    )


def print_wide(rows: Sequence[Row], where: str, standard: str) -> None:
    families = sorted({name for row in rows for name in row.families})
    legend = tables.Legend()
    title = (
        f"{where}: time of {standard}, ratios to it (above 1: faster); "
        f"CPU: processor time / that of {standard}"
    )
    names = ("collective", "bytes", f"{standard} ms", *families, "tuned choice", "tuned")
    has_limit = any(row.limit for row in rows)
    limits = ("limit ms", f"{standard} of limit", "tuned of limit") if has_limit else ()
    table = new_table(title, (*names, "95 % interval", *limits, "CPU", "temporaries"))
    for row in rows:
        table.add_row(
            row.collective,
            units.format_size(row.bytes),
            f"{row.native * 1e3:.3g}",
            *(f"{row.families[name]:.2f}" if name in row.families else "" for name in families),
            legend.short(row.tuned),
            f"{row.ratio:.2f}",
            f"{row.ratio_low:.2f} .. {row.ratio_high:.2f}",
            *(limit_cells(row) if has_limit else ()),
            shown(row.cpu_ratio),
            "" if row.tuned_memory is None else units.format_about(row.tuned_memory),
        )
    tables.show(table, wide=True)
    legend.show()
    _sum_up(rows, standard)


def print_neighbours(rows: Sequence[Row], where: str) -> None:
    """Compares the tuned choice with native and with the faster stored winner of the neighbouring sizes."""
    legend = tables.Legend()
    title = f"{where}: sizes between those that were tuned (above 1: the tuned choice is faster)"
    names = ("collective", "bytes", "native ms", "tuned choice", "over native", "95 % interval")
    table = new_table(title, (*names, "over the better neighbour"))
    for row in rows:
        table.add_row(
            row.collective,
            units.format_about(row.bytes),
            f"{row.native * 1e3:.3g}",
            legend.short(row.tuned),
            f"{row.ratio:.2f}",
            f"{row.ratio_low:.2f} .. {row.ratio_high:.2f}",
            shown(row.over_neighbour),
        )
    tables.show(table, wide=True)
    legend.show()
    behind = [row for row in rows if row.ratio < 1 - MARGIN]
    lagging = [row for row in rows if (row.over_neighbour or 1.0) < 0.9]
    print(
        f"{len(rows)} problems: {len(behind)} below {1 - MARGIN:.2f} of native, "
        f"{len(lagging)} below 0.9 of the better neighbour; least {min(row.ratio for row in rows):.2f} and "
        f"{min(row.over_neighbour or 1.0 for row in rows):.2f}"
    )


def print_each(rows: Iterable[Row], where: str, standard: str) -> None:
    """Every variant of every problem; native, or its stand-in, comes first."""
    legend = tables.Legend()
    title = f"{where}: median times, ratios to {standard}'s (above 1: faster)"
    names = ("collective", "bytes", "variant", "ms", "ratio", "95 % interval")
    table = new_table(title, (*names, "limit ms", "of limit"))
    for row in rows:
        for name, ratio in {standard: 1.0, **row.variants}.items():
            low, high = row.intervals.get(name, (1.0, 1.0))
            seconds = row.native / ratio
            table.add_row(
                row.collective,
                units.format_size(row.bytes),
                legend.short(name),
                f"{seconds * 1e3:.3g}",
                f"{ratio:.2f}",
                f"{low:.2f} .. {high:.2f}",
                "" if row.limit is None else f"{row.limit * 1e3:.3g}",
                shown(row.limit and row.limit / seconds),
            )
        table.add_section()
    tables.show(table, wide=True)
    legend.show()


def limit_cells(row: Row) -> list[str]:
    least = "" if row.limit is None else f"{row.limit * 1e3:.3g}"
    return [least, shown(row.native_of_limit), shown(row.of_limit)]


def shown(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def print_steps(rows: Iterable[tuple[Mapping[str, str], Row]], mpi: str) -> None:
    """The speed-up of each stage of improvements over the paper's composition (benchmark.stages)."""
    names = ("collective", "bytes", "plain ms", "lane algorithm", "node phases", "tuned")
    table = new_table(f"{mpi}: times faster than the plain full-lane composition", names)
    for of, row in rows:
        plain = row.variants.get(of.get("plain", ""))
        if plain is None:
            continue
        gains = (row.variants.get(of[name], 1.0) / plain for name in names[3:])
        table.add_row(
            row.collective,
            units.format_size(row.bytes),
            f"{row.native / plain * 1e3:.3g}",
            *map(shown, gains),
        )
    tables.show(table, wide=True)


def picture(rows: Sequence[Row], mpi: str, standard: str, each: bool) -> LinePicture:
    """A panel for each collective: native or its stand-in, families or variants, the tuned choice, the limit.

    Times, with 95 % intervals; those of variants are native's median over the interval of the ratio.
    """
    panels: dict[str, list[Line]] = {}
    for collective in dict.fromkeys(row.collective for row in rows):
        mine = [row for row in rows if row.collective == collective]
        native = [Interval(row.native, row.native_low, row.native_high) for row in mine]
        named = {row.bytes: _variants(row) if each else _best_of_families(row) for row in mine}
        labels = sorted({label for names in named.values() for label in names})
        panels[collective] = [
            Line(standard, "o-", [(row.bytes, row.native) for row in mine], native),
            *(
                _line(
                    label,
                    ".:",
                    [(r, named[r.bytes][label]) for r in mine if label in named[r.bytes]],
                )
                for label in labels
            ),
            _line("tuned", "s--", [(row, row.tuned) for row in mine if row.tuned != "-"]),
            Line("limit", "-", [(row.bytes, row.limit) for row in mine if row.limit]),
        ]
    return LinePicture(panels, title=mpi)


def _best_of_families(row: Row) -> dict[str, str]:
    """Family -> its fastest variant."""
    names = sorted(row.variants, key=row.variants.__getitem__)
    return {split_name(name)[0]: name for name in names}


def _variants(row: Row) -> dict[str, str]:
    """Label -> variant: the family if it has one variant here."""
    families = Counter(split_name(name)[0] for name in row.variants)
    return {
        family if families[family] == 1 else name: name
        for name in row.variants
        for family, _ in [split_name(name)]
    }


def _line(label: str, style: str, points: Sequence[tuple[Row, str]]) -> Line:
    """``points``: each with the variant that was timed; native or its stand-in if no such variant was."""
    times = []
    for row, name in points:
        ratio = row.variants.get(name, 1.0)
        low, high = row.intervals.get(name, (1.0, 1.0))
        if low <= 0:  # one launch has no interval
            low = high = ratio
        times.append(Interval(row.native / ratio, row.native / high, row.native / low))
    at = [(row.bytes, one.median) for (row, _), one in zip(points, times)]
    return Line(label, style, at, times)
