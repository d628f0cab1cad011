"""README's first commands, as a newcomer types them."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from support import TOP, execute


@pytest.mark.wide
def test_the_first_five_minutes(tmp_path: Path) -> None:
    """Two collectives are tuned on this machine, and the example is served."""
    text = (TOP / "README.md").read_text().partition("## Five minutes\n")[2]
    block = re.search(r"```sh\n(.*?)```", text, flags=re.DOTALL)
    assert block
    setup, activate, *commands = block[1].splitlines()
    assert (setup, activate) == ("make setup", ". .venv/bin/activate")
    (tmp_path / "examples").symlink_to(TOP / "examples")
    (tmp_path / "build").mkdir()
    variables = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COLLFORGE_HOME": str(tmp_path / "build"),
    }
    words = ["env", *(f"{name}={value}" for name, value in variables.items())]
    done = execute([*words, "sh", "-ec", "\n".join(commands)], cwd=tmp_path, timeout=400)
    assert done.returncode == 0, done.stderr
    assert "shared_window" in done.stdout
    assert re.search(r"allreduce ms .*\d\.\d\d to \d", done.stdout)
