"""All samples of a database as rows, or in the shape of the tables that OSU's benchmarks print."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TextIO

from collforge.case import parse
from collforge.db import Measurement, Store
from collforge.mpi_library import short_version
from collforge.place import Place

Chosen = tuple[Place, Measurement]


def choose(store: Store, system: str, mpi: str, layout: str, collective: str) -> list[Chosen]:
    """The measurements with samples of these names; '' stands for all."""
    return [
        (place, one)
        for place in store.places()
        if system in ("", place.system) and mpi in ("", place.mpi) and layout in ("", place.layout)
        for one in store.measurements(place, collective or None, whole=True)
        if one.samples
    ]


def write_rows(store: Store, chosen: Sequence[Chosen], out: TextIO) -> None:
    """CSV, a row for each sample, in seconds, in the order in which the rounds of a launch ran."""
    runs = {one.uuid: one for one in store.runs()}
    writer = None
    for place, one in chosen:
        run = runs[one.run]
        for number, seconds in enumerate(one.samples):
            row = {
                **asdict(place),
                "collective": one.variant.collective,
                "bytes": one.bytes,
                "problem": one.problem,
                "variant": one.variant.name,
                "launch": one.run,
                "started": run.started,
                "hosts": " ".join(run.hosts),
                "round": number,
                "seconds": seconds,
            }
            if writer is None:
                writer = csv.DictWriter(out, list(row))
                writer.writeheader()
            writer.writerow(row)


def write_osu(chosen: Sequence[Chosen], out: TextIO) -> None:
    """A table for each collective, place, type and variant: microseconds of the samples of all launches.

    OSU's minimum and maximum are over ranks, these over samples: a sample is the time of the slowest rank.
    """
    tables: dict[tuple[str, str], dict[int, list[float]]] = {}
    for place, one in chosen:
        case = parse(one.problem)
        options = "".join(f", {key} {value}".rstrip() for key, value in case.options.items())
        where = f"{place.system}, {short_version(place.mpi_version)}, {place.layout}{options}"
        key = f"{one.variant.collective}, {where}", one.variant.name
        tables.setdefault(key, {}).setdefault(one.bytes, []).extend(one.samples)
    for (title, variant), sizes in sorted(tables.items()):
        out.write(f"# Latency of {title}: {variant}\n")
        out.write(
            f"{'# Size':<10}{'Avg Latency(us)':>18}{'Min Latency(us)':>18}{'Max Latency(us)':>18}"
            f"{'Iterations':>12}\n"
        )
        out.writelines(f"{line}\n" for line in _lines(sizes))
        out.write("\n")


def _lines(sizes: dict[int, list[float]]) -> Iterator[str]:
    for size, samples in sorted(sizes.items()):
        times = (statistics.fmean(samples), min(samples), max(samples))
        cells = "".join(f"{seconds * 1e6:>18.2f}" for seconds in times)
        yield f"{size:<10}{cells}{len(samples):>12}"
