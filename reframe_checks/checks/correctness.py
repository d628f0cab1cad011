"""Verifies every variant of the manifest on the partition's layout."""

from __future__ import annotations

import reframe as rfm
from reframe.core.builtins import parameter, performance_function, variable

from collforge.reframe_checks.cases import verification_cases
from collforge.reframe_checks.driver_check import DriverCheck
from collforge.reframe_checks.manifest import MANIFEST
from collforge.reframe_checks.results import Launch


@rfm.simple_test
class Correctness(DriverCheck):
    """One variant on the calls that collforge.reframe_checks.cases chooses; nothing is timed."""

    variant = parameter([f"{v.collective}:{v.family}" for v in MANIFEST.variants], loggable=True)

    tier = variable(str, value="small")
    """small, full or paranoid."""

    verify_only = True

    def case_strings(self) -> list[str]:
        for variant in MANIFEST.variants:
            if f"{variant.collective}:{variant.family}" == self.variant:
                return list(verification_cases(MANIFEST, variant, self.place, self.tier))
        raise AssertionError(self.variant)

    def fault(self, launch: Launch) -> str:
        """All cases were chosen such that the variant applies; it may decline a call, and says so."""
        skipped = [r["case"] for r in launch.results if not r["applicable"] and not r["detail"]]
        return super().fault(launch) or (f"{skipped[0]}: does not apply" if skipped else "")

    @performance_function("count")
    def cases_verified(self) -> int:
        return sum(r["applicable"] and r["verified"] for r in self.launched[0].results)
