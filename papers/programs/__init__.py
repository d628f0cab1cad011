"""The programs of the figures: their C, how they are built, and what they print."""
