"""Verifies every variant of the manifest, and the MPI library's own collectives, on the partition's layout."""

from __future__ import annotations

import reframe as rfm
from reframe.core.builtins import parameter, performance_function, variable

from collforge.cases import native_cases, verification_cases
from collforge.records import Output
from collforge.reframe_checks.driver_check import DriverCheck
from collforge.reframe_checks.manifest import MANIFEST
from collforge.variant import NATIVE


@rfm.simple_test
class Correctness(DriverCheck):
    """Verifies one variant with the cases of collforge.cases; nothing is timed.

    As variants count the native collectives: ``Correctness %variant=bcast:native``. A wrong one is a defect of
    the MPI library; `collforge verify --native` lists all its failures.
    """

    variant = parameter(
        [
            *(f"{v.collective}:{v.family}" for v in MANIFEST.variants),
            *(f"{entry.name}:{NATIVE}" for entry in MANIFEST.collectives if not entry.hybrid),
        ],
        loggable=True,
    )

    tier = variable(str, value="small")
    """small, full or paranoid."""

    verify_only = True
    tags: set[str] = {"acceptance"}  # noqa: RUF012 (ReFrame copies it)

    def case_strings(self) -> list[str]:
        collective, _, family = self.variant.partition(":")
        if family == NATIVE:
            return list(native_cases(MANIFEST, collective, self.rank_layout, self.tier))
        for variant in MANIFEST.variants:
            if f"{variant.collective}:{variant.family}" == self.variant:
                return list(verification_cases(MANIFEST, variant, self.rank_layout, self.tier))
        raise AssertionError(self.variant)

    def fault(self, output: Output) -> str:
        """As DriverLaunch.fault. The variant applies to all chosen cases, but may decline a call and say so."""
        skipped = [one.case for one in output.results if not one.applicable and not one.detail]
        return super().fault(output) or (f"{skipped[0]}: does not apply" if skipped else "")

    @performance_function("count")
    def cases_verified(self) -> int:
        return sum(one.applicable and one.verified for one in self.outputs[0].results)
