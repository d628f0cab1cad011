"""Runs a short command and captures its output."""

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
    """The command's exit code and output. If it cannot start or takes too long, the code is 1.

    ``env`` is added to this process's environment; ``text`` is the standard input.
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
