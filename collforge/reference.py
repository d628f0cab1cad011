"""The expected time of a winner, and the threshold of a regression.

They are like ReFrame's references, but the threshold follows from how much launches differ: the winner's own
and, since they are few, those of all variants of about the same duration.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Reference:
    """The seconds of a call, or its speed-up over native, in the launches that are stored."""

    mean: float
    """Geometric mean over launches."""
    spread: float
    """Standard deviation of the logarithm between launches."""
    launches: int
    df: int
    """Degrees of freedom of the spread."""

    def rise(self, launches: Sequence[float], chance: float) -> Rise:
        """By how much later launches exceed this.

        If nothing has changed, they are beyond the limit with this chance.
        """
        from scipy import stats  # takes longer to import than most commands

        error = self.spread * math.sqrt(1 / self.launches + 1 / len(launches))
        now = math.exp(statistics.fmean(map(math.log, launches)))
        # With few degrees of freedom it may be too large for a number.
        limit = math.exp(min(float(stats.t.ppf(1 - chance, self.df)) * error, 700.0))
        return Rise(self.mean, now, now / self.mean, limit)

    @property
    def inverse(self) -> Reference:
        """Of 1 / the quantity, so that a fall is a rise."""
        return Reference(1 / self.mean, self.spread, self.launches, self.df)


@dataclass(frozen=True)
class Rise:
    """A quantity then and now (geometric means over launches), and the greatest factor that is chance."""

    then: float
    now: float
    factor: float
    limit: float

    @property
    def is_finding(self) -> bool:
        return self.factor > self.limit


@dataclass(frozen=True)
class References:
    """Those of a winner."""

    seconds: Reference
    speed_up: Reference
