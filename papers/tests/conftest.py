"""The fixtures of tests/conftest.py, for the tests of the papers, which `make test-wide` runs."""

from pathlib import Path

import pytest
from conftest import _own_environment, built, collforge, launch, made, mpi, seed  # noqa: F401


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.wide)
