"""Self-consistent performance guidelines (Träff, Hunold, section I): a collective of a library should
not be slower than an implementation of it with the library's other collectives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import reframe as rfm
from reframe.core.builtins import parameter, performance_function, run_before, variable
from reframe.core.logging import getlogger
from reframe.utility import typecheck as typ

from collforge.case import parse
from collforge.cases import timing_cases
from collforge.reframe_checks import results
from collforge.reframe_checks.driver_check import DriverCheck
from collforge.reframe_checks.manifest import MANIFEST
from collforge.reframe_checks.results import Range
from collforge.variant import split_name


@rfm.simple_test
class Guideline(DriverCheck):
    """Times a collective's variants, at every parameter point, against native.

    If a variant beats native by more than the margin in every launch, the MPI library violates the
    guideline.
    """

    collective = parameter(
        [one.name for one in MANIFEST.collectives if not one.hybrid], loggable=True
    )

    sizes = variable(typ.List[int], value=[1024, 32768, 1048576])
    """Bytes of a block."""

    margin = variable(float, value=0.05)
    """The least deviation of a ratio from 1 that counts."""

    findings = variable(typ.List[str], value=[], loggable=True)
    """The violations, by case string."""

    launches = 3
    samples = 15
    tags: set[str] = {"acceptance"}  # noqa: RUF012 (ReFrame copies it)
    reference: ClassVar = {"*": {"violations": (0, None, 0, "count")}}

    def case_strings(self) -> list[str]:
        cases = []
        for native in timing_cases(MANIFEST, self.collective, self.rank_layout, self.sizes):
            facts = MANIFEST.facts(self.collective, self.rank_layout, native.bytes)
            cases += [
                str(native.by(variant.name(point)))
                for variant in MANIFEST.variants_of(self.collective)
                if variant.applies(facts)
                for point in variant.points(facts)
            ]
        return cases

    def find(self) -> Iterator[str]:
        """Judges one parameter point of a family: the one whose worst launch is best."""
        best: dict[tuple[str, str], tuple[Range, str]] = {}
        for text, ratio in results.ratio_ranges(self.outputs).items():
            case = parse(text)
            entry = case.problem, split_name(case.variant)[0]
            best[entry] = max(best.get(entry, (ratio, text)), (ratio, text))
        for ratio, text in best.values():
            if ratio.low > 1 + self.margin:
                yield f"{text}: {ratio}"

    @run_before("performance")
    def report_findings(self) -> None:
        self.findings = list(self.find())
        for finding in self.findings:
            getlogger().info(f"{self.current_partition.fullname}: {finding}")

    @performance_function("count")
    def violations(self) -> int:
        return len(self.findings)
