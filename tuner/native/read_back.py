"""Checks that the library follows exported rules: a launch with the rules file records which algorithms run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from collforge import home, reframe_checks, units
from collforge.errors import CollforgeError
from collforge.reframe_checks import read_back
from collforge.reframe_checks.read_back import FUNCTIONS, Entered
from collforge.tuner.native import openmpi_han
from collforge.tuner.run.jobs import Check, Site, run_check

CHECK = Check("ReadBack", reframe_checks.CHECKS / "read_back.py")

ENDED = "the launch ended before or in this call"
HAN = "some algorithm of han"


@dataclass(frozen=True)
class Asked:
    """One rule of a rules file: the algorithm, by ompi_info's title, for a block of this many bytes."""

    collective: str
    bytes: int
    title: str


@dataclass(frozen=True)
class Row:
    """A rule and whether the library followed it."""

    asked: Asked
    ran: str
    """The title of the algorithm that ran, or HAN; '' if neither coll/tuned nor, where asked, han ran it."""
    why_not: str
    """Why the rule was not followed; '' if it was."""
    handed_over: bool = False
    """Whether the rule was followed, but its algorithm delegated the call to the one that ran."""

    def __str__(self) -> str:
        size = units.format_size(self.asked.bytes)
        verdict = f"not taken: {self.why_not}" if self.why_not else "confirmed"
        if self.ran == HAN:
            verdict += ", but which of han's algorithms ran cannot be seen"
        verdict = f"handed over to {self.ran}" if self.handed_over else verdict
        ran = self.ran or "unknown"
        return f"{self.asked.collective} {size}: asked {self.asked.title}, ran {ran}: {verdict}"


def mca_variables(settings: Mapping[str, str]) -> dict[str, str]:
    """Open MPI's parameters as environment variables, equivalent to `--mca NAME VALUE`."""
    return {f"OMPI_MCA_{name}": value for name, value in settings.items()}


def launch(
    site: Site, layout: str, variables: Mapping[str, str], asked: Sequence[Asked], folder: Path
) -> list[Row]:
    """Calls every rule's collective in one launch under these environment variables, and reports what ran.

    Raises CollforgeError if the launch failed.
    """
    found = calls(site, layout, variables, [(one.collective, one.bytes) for one in asked], folder)
    return [judge(one, found.get((one.collective, one.bytes))) for one in asked]


def calls(
    site: Site,
    layout: str,
    variables: Mapping[str, str],
    wanted: Sequence[tuple[str, int]],
    folder: Path,
) -> dict[tuple[str, int], Entered]:
    """Makes calls (collective, bytes) in one launch under these environment variables.

    What ran in each that returned. Raises CollforgeError if the launch did not start.
    """
    site = replace(site, variables={**site.variables, **variables})
    folder = home.new_folder(folder, "read-back")
    words = " ".join(f"{collective}:{nbytes}" for collective, nbytes in wanted)
    text = run_check(site, CHECK, {"layout": layout, "calls": words}, folder)
    if not text:
        raise CollforgeError(
            f"the file cannot be read back: the launch did not start; see {folder / 'reframe.out'}"
        )
    return read_back.read(text)


def judge(asked: Asked, entered: Entered | None) -> Row:
    """Compares the algorithm that ran in a call with the one that the rule names."""
    if entered is None:
        return Row(asked, "", ENDED)
    if asked.title.startswith(openmpi_han.PREFIX):
        return _judge_han(asked, entered)
    ran = read_back.title(asked.collective, entered.first) if entered.first else ""
    wanted = FUNCTIONS.get(asked.collective, {}).get(asked.title)
    if wanted is None:
        why = "which function is that algorithm is not known"
    elif entered.failed:
        why = "MPI returned an error"
    elif entered.elsewhere:
        why = "a component other than tuned ran it, in parts on communicators of its own (han does)"
    elif not entered.first:
        why = "a component other than tuned ran it"
    elif not entered.same:
        why = "not all ranks ran the same"
    elif entered.first != wanted:
        why = "the rule does not apply to this call"
    elif entered.then:
        ran = read_back.title(asked.collective, entered.then)
        return Row(asked, ran, f"{asked.title} handed the call over", handed_over=True)
    else:
        why = ""
    return Row(asked, ran, why)


def _judge_han(asked: Asked, entered: Entered) -> Row:
    """Whether han ran a call: by parts on communicators of its own, and nothing on the program's."""
    if entered.failed:
        return Row(asked, "", "MPI returned an error")
    if entered.first and entered.same and not entered.elsewhere:
        # Its reproducible algorithms do so with all calls, others where nodes are unequal or have one rank.
        ran = read_back.title(asked.collective, entered.first)
        return Row(asked, ran, f"{asked.title} handed the call over", handed_over=True)
    if entered.first or not entered.same:
        return Row(asked, "", "not all of the call was run by han")
    if not entered.elsewhere:
        return Row(asked, "", "no algorithm ran in parts of the communicator, as han's do")
    return Row(asked, HAN, "")
