"""The ReFrame checks, their settings and the systems they run on.

ReFrame loads the files below ``checks`` and ``settings`` by path, under its own module names. Shared
code is in the other modules of this package, so that it is loaded only once.
"""

from __future__ import annotations

from pathlib import Path

CHECKS = Path(__file__).resolve().parent / "checks"
"""The folder of the checks: ``reframe -c CHECKS -R``."""

SETTINGS = Path(__file__).resolve().parent / "settings" / "this_machine.py"
"""ReFrame's configuration of the systems ``local``, ``emulated`` and ``simulated``: ``reframe -C SETTINGS``."""

SLURM_SETTINGS = SETTINGS.with_name("slurm_cluster.py")
"""That of the Slurm cluster on this machine, for commands by `collforge cluster exec`."""
