"""Self-consistent performance guidelines: a library's own collective is to be no slower than the same one put together
from its others (papers/multi-lane-decomposition, section IV)."""

from __future__ import annotations

import reframe as rfm
from reframe.core.builtins import parameter, performance_function, variable
from reframe.utility import typecheck as typ

from collforge.generator.case import points, variant_text
from collforge.reframe_checks.cases import timing_case
from collforge.reframe_checks.comparison import Comparison
from collforge.reframe_checks.manifest import MANIFEST


@rfm.simple_test
class Guideline(Comparison):
    """Times a collective's variants, at every parameter point, against native.

    A variant that beats native by more than the margin in every launch is a violation by the MPI library.
    """

    collective = parameter([entry.name for entry in MANIFEST.collectives], loggable=True)

    sizes = variable(typ.List[int], value=[1024, 32768, 1048576])
    """Bytes of a block."""

    reference = {"*": {"violations": (0, None, 0, "count")}}

    def case_strings(self) -> list[str]:
        cases = []
        for nbytes in self.sizes:
            native = timing_case(MANIFEST, self.collective, self.place, nbytes)
            facts = MANIFEST.facts(self.collective, self.place, nbytes)
            cases += [
                str(native.by(variant_text(variant.family, variant.parameters, point)))
                for variant in MANIFEST.variants_of(self.collective)
                if variant.applies(facts)
                for point in points(variant)
            ]
        return cases

    def judge(self, case: str, low: float, high: float) -> str:
        return f"{low:.2f} to {high:.2f} times as fast as native" if low > 1 + self.margin else ""

    @performance_function("count")
    def violations(self) -> int:
        return len(self.findings)
