"""The fixtures of tests/conftest.py, for the tests of the papers."""

from conftest import _own_environment, built, collforge, launch, made, mpi, seed  # noqa: F401
