"""Collforge finds the fastest correct implementation of every MPI collective on your cluster."""

__version__ = "0.1.0"
