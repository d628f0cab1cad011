"""Launches programs on any system, for probes: all launches of a probe are one job of ReFrame."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from collforge import reframe_checks
from collforge.errors import CollforgeError
from collforge.home import make_folder
from collforge.reframe_checks.launches import KILLED, Launch, Outcome, Plan, read_outcomes
from collforge.tuner.run.jobs import Check, Site, run_check

__all__ = ["KILLED", "Launch", "Outcome", "failure", "run_launches"]

CHECK = Check("Launches", reframe_checks.CHECKS / "launches.py")


def run_launches(
    site: Site,
    folder: Path,
    compile_commands: Sequence[Sequence[str]],
    launches: Sequence[Launch],
) -> list[Outcome]:
    """What became of each launch, in this order.

    ``folder`` (new or empty, absolute) receives the plan and ReFrame's files; the commands compile the programs
    anywhere below it. To compare settings, launch each of them once, then each again: a round's launches are
    near each other in time. Raises CollforgeError if the job did not come to its end.
    """
    plan = Plan(compile_commands, launches)
    path = make_folder(folder) / "plan.json"
    path.write_bytes(msgspec.json.encode(plan))
    nodes, per_node, cores = plan.allocation
    settings = {"plan": path, "layout": f"{nodes}x{per_node}", "cores": cores}
    found = read_outcomes(run_check(site, CHECK, settings, folder, plan.seconds))
    if len(found) != len(launches):
        said = (folder / "reframe.out").read_text(encoding="utf-8", errors="replace")
        reasons = re.findall(r"Reason: (.*)", said)
        raise CollforgeError(
            f"the launches failed: {' '.join(reasons)} (see {folder / 'reframe.out'})"
        )
    return found


def failure(outcome: Outcome, what: str) -> CollforgeError:
    """To raise for a launch without a result; ``what``: its name, with which the message begins."""
    said = outcome.err.strip()[-2000:] or outcome.out.strip()[-2000:]
    return CollforgeError(f"{what} failed (exit code {outcome.code}):\n{said}")
