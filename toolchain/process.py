"""Runs a short command for what it says."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence


def outcome(
    command: Sequence[str],
    seconds: float,
    env: Mapping[str, str] | None = None,
    text: str = "",
) -> subprocess.CompletedProcess[str]:
    """Its exit code and what it says; one that cannot start or takes too long has failed, code 1.

    ``env`` comes on top of this process's environment; ``text``: its standard input.
    """
    try:
        return subprocess.run(
            command,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
            input=text,
        )
    except subprocess.TimeoutExpired as error:
        out = error.stdout or b""
        said = out.decode(errors="replace") if isinstance(out, bytes) else out
        return subprocess.CompletedProcess(command, 1, said, "it takes too long")
    except OSError as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))
