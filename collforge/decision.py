"""The outcomes of a decision between a variant and native, and the margin that a win needs."""

from __future__ import annotations

MARGIN = 0.03
"""Two times whose ratio differs from 1 by less than this count as equal."""

DECIDED, TIE, UNDECIDED = "decided", "tie", "undecided"
"""DECIDED: a variant is faster than native by the margin, or no variant can be.
TIE: the expected cost of staying native is less than the margin. UNDECIDED: too few measurements."""
NEIGHBOUR, FALLBACK = "neighbour", "fallback"
"""The evidence of the row of an undecided size. NEIGHBOUR: the winner of a neighbouring size serves it.
FALLBACK: native serves it, because that winner was slower there (db/schema.sql)."""
