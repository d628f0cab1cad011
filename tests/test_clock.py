"""The arithmetic of the driver's common clock, without MPI."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Installation
from support import execute

RUNTIME = Path(__file__).resolve().parent.parent / "runtime"
BENCH = RUNTIME / "bench"

CLOCK = r"""
#include "base/library.h"
#include "clock.h"
#include <math.h>
#include <stdio.h>

/* Whether time passes by itself is the library's to tell. */
const struct cf_library cf_library = {.name = "none"};

/* A clock that was 5 s ahead at 100 and gains 20 us a second. */
static double other(double t)
{
    return t + 5 + 20e-6 * (t - 100);
}

/* Round trips of which only number `clean` is symmetric and short. */
static struct clock_point compare(double t, int clean)
{
    struct clock_exchange exchanges[8];
    for (int i = 0; i < 8; i++) {
        const double there = i == clean ? 2e-6 : 9e-6 + 1e-6 * i;
        const double back = i == clean ? 2e-6 : 50e-6;
        exchanges[i] = (struct clock_exchange){t, other(t + there), t + there + back};
    }
    return clock_estimate(exchanges, 8);
}

static int bad = 0;

static void close_to(const char *what, double got, double want, double within)
{
    if (!(fabs(got - want) <= within)) {
        printf("%s: got %.12g, want %.12g\n", what, got, want);
        bad++;
    }
}

int main(void)
{
    const struct clock_point first = compare(100, 5), near = compare(100.01, 0), far = compare(110, 7);
    close_to("offset", first.offset, 5, 1e-9);
    close_to("error", first.error, 2e-6, 1e-12);
    close_to("reference", first.reference, 100.000002, 1e-9);
    const struct clock_line known = clock_extrapolation(&first, &far);
    close_to("drift", known.drift, 20e-6, 1e-9);
    close_to("future", clock_to_local(&known, 115), other(115), 1e-8);
    close_to("back", clock_to_reference(&known, other(112.5)), 112.5, 1e-8);
    close_to("there and back", clock_to_reference(&known, clock_to_local(&known, 1e5)), 1e5, 1e-9);
    /* Too near each other to know the drift to 1e-4: none is assumed. */
    close_to("unknown drift", clock_extrapolation(&first, &near).drift, 0, 0);
    close_to("same point", clock_extrapolation(&first, &first).drift, 0, 0);
    const struct clock_line between = clock_interpolation(&first, &far);
    close_to("between", clock_to_reference(&between, other(104)), 104, 1e-8);
    close_to("no time between", clock_interpolation(&first, &first).drift, 0, 0);
    return bad > 0;
}
"""


@pytest.mark.either
def test_clock_arithmetic(built: Installation, tmp_path: Path) -> None:
    source, program = tmp_path / "clock_test.c", tmp_path / "clock_test"
    source.write_text(CLOCK)
    flags = ["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror"]
    flags += [f"-I{BENCH}", f"-I{RUNTIME / 'src'}"]
    sources = [str(source), str(BENCH / "clock.c"), str(BENCH / "report.c")]
    command = [str(built.library.mpicc), *flags, *sources, "-o", str(program), "-lm"]
    assert execute(command, timeout=120).returncode == 0
    assert execute([str(program)], timeout=30).returncode == 0
