"""The search for the size that takes a wanted time (papers/programs/overlap_search.c)."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator

import pytest
from support import execute

from collforge import papers

MICRO = 1e-6


class Goal(ctypes.Structure):
    """struct search_goal"""

    _fields_ = [
        ("seconds", ctypes.c_double),
        ("tolerance", ctypes.c_double),
        ("order", ctypes.c_double),
        ("first", ctypes.c_long),
        ("least", ctypes.c_long),
        ("most", ctypes.c_long),
        ("calls", ctypes.c_int),
    ]


class Size(ctypes.Structure):
    """struct search_found"""

    _fields_ = [
        ("size", ctypes.c_long),
        ("seconds", ctypes.c_double),
        ("calls", ctypes.c_int),
        ("converged", ctypes.c_bool),
    ]


COST = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_long, ctypes.c_void_p)
Cost = Callable[[int], float]
Search = Callable[..., tuple[Size, list[int]]]


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Search:
    """search(cost, seconds, most=, order=, calls=, tolerance=): what is found, and the sizes tried."""
    path = tmp_path_factory.mktemp("search") / "search.so"
    source = str(papers.PROGRAMS / "overlap_search.c")
    done = execute(["cc", "-shared", "-fPIC", "-O1", "-o", str(path), source, "-lm"])
    assert done.returncode == 0, done.stderr
    function = ctypes.CDLL(str(path)).search_size
    function.restype = Size
    function.argtypes = [ctypes.POINTER(Goal), COST, ctypes.c_void_p]

    def run(
        cost: Cost,
        seconds: float,
        most: int = 1 << 28,
        order: float = 1,
        calls: int = 24,
        tolerance: float = 0.1,
    ) -> tuple[Size, list[int]]:
        tried: list[int] = []

        def recorded(size: int, _: object) -> float:
            tried.append(size)
            return cost(size)

        goal = Goal(seconds, tolerance, order, min(1024, most), 1, most, calls)
        return function(ctypes.byref(goal), COST(recorded), None), tried

    return run


def latency(size: int) -> float:
    return 20 * MICRO + size * 1e-9


def protocols(size: int) -> float:
    """The time doubles at 64 KiB, as where a protocol changes."""
    return latency(size) * (2 if size >= 1 << 16 else 1)


def cubic(size: int) -> float:
    return MICRO + 1e-9 * size**3


def worse_in_the_middle(size: int) -> float:
    """Not monotonic."""
    return latency(size) * (1.5 if 10000 < size < 40000 else 1)


@pytest.mark.parametrize("cost", [latency, protocols, cubic, worse_in_the_middle])
@pytest.mark.parametrize("seconds", [50 * MICRO, 2e-3, 32e-3, 1.0])
def test_a_size_is_found_for_a_time(search: Search, cost: Cost, seconds: float) -> None:
    order = 3 if cost is cubic else 1
    found, tried = search(cost, seconds, order=order, most=1 << 34)
    assert found.converged and found.calls == len(tried) <= 20
    assert found.seconds == cost(found.size) == pytest.approx(seconds, rel=0.1)
    assert max(map(cost, tried)) < 20 * seconds + cost(1024)


def test_a_smooth_cost_is_interpolated(search: Search) -> None:
    """Halving takes five tries more."""
    found, _ = search(lambda size: latency(size) + 1e-16 * size**2, 2e-3, tolerance=1e-4)
    assert found.converged and found.calls <= 13


@pytest.mark.parametrize(
    ("cost", "seconds", "most"),
    [
        (latency, 5 * MICRO, 1 << 20),  # below the latency
        (latency, 1.0, 1 << 20),  # above the memory
        (lambda size: 1e-3 if size < 5000 else 9e-3, 3e-3, 1 << 20),  # in a gap
        (lambda size: 1e-3, 3e-3, 1 << 20),
        (lambda size: 1e-3, 3e-3, 1),
    ],
)
def test_a_time_that_no_size_takes(search: Search, cost: Cost, seconds: float, most: int) -> None:
    found, tried = search(cost, seconds, most)
    assert not found.converged and len(tried) <= 24
    assert all(1 <= size <= most for size in tried)
    best = min(abs(math.log(cost(size) / seconds)) for size in tried)
    assert abs(math.log(found.seconds / seconds)) == pytest.approx(best)
    assert found.seconds == cost(found.size)


def test_a_time_that_was_disturbed_is_forgotten(search: Search) -> None:
    """The first size takes a thousand times as long as it should, so the right ones seem too large."""
    numbers: Iterator[int] = iter(range(100))
    found, _ = search(lambda size: latency(size) * (1000 if next(numbers) < 1 else 1), 2e-3)
    assert found.converged


def test_the_number_of_tries_is_bounded(search: Search) -> None:
    numbers: Iterator[int] = iter(range(10**6))
    found, tried = search(lambda size: 1.0 if next(numbers) % 2 else 1e-6, 1e-3, calls=1000)
    assert not found.converged and len(tried) <= 64
