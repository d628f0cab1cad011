"""What a decision between a variant and native is called, and the margin by which one has to win."""

from __future__ import annotations

MARGIN = 0.03
"""Ratios of times nearer to 1 count as equal."""

DECIDED, TIE, UNDECIDED = "decided", "tie", "undecided"
"""A variant clears the margin, or none can; by staying native one loses less than the margin; open."""
BETWEEN, BARRIER = "between", "barrier"
"""Of an undecided size: the winner beside it serves; native, that winner being slower (db/schema.sql)."""
