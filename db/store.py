"""All access to the database. Each write is one transaction; each error names its fix."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

from collforge.db.production import VARIANT as _VARIANT
from collforge.db.production import Production
from collforge.db.records import (
    Choice,
    Lanes,
    MapPoint,
    Measurement,
    Result,
    RunRecord,
    ServedMedian,
    Start,
    StoredRun,
    Undecided,
    Verification,
    Winner,
)
from collforge.place import Place
from collforge.variant import Variant

_RUNS = """
    FROM run
    JOIN system ON system.id = run.system
    JOIN mpi_library ON mpi_library.id = run.mpi_library
    JOIN layout ON layout.id = run.layout
"""


class Store(Production):
    """The tables of an open database, as records."""

    def describe_system(self, name: str, host_pattern: str) -> None:
        """Sets the regular expression that the host names of a system match."""
        with self.transaction():
            self._id("system", name=name)
            self._rows("UPDATE system SET host_pattern = ? WHERE name = ?", host_pattern, name)

    def host_pattern(self, system: str) -> str:
        """'' if it is not known."""
        rows = self._rows("SELECT host_pattern FROM system WHERE name = ?", system)
        return str(rows[0][0] or "") if rows else ""

    def record_sources(self, fingerprint: str, files: Mapping[str, str]) -> None:
        """Stores the hash of each C file that a variant's fingerprint is computed from."""
        with self.transaction():
            for file, found in files.items():
                sql = "INSERT OR IGNORE INTO source (fingerprint, file, hash) VALUES (?, ?, ?)"
                self._rows(sql, fingerprint, file, found)

    def sources(self, fingerprint: str) -> dict[str, str]:
        """The stored file hashes of a fingerprint; empty if none were stored."""
        return dict(self._rows("SELECT file, hash FROM source WHERE fingerprint = ?", fingerprint))

    def record_lanes(self, place: Place, found: Lanes) -> None:
        """Replaces what is known of the lanes of a place's system with its MPI library."""
        with self.transaction():
            columns = {**self._library(place), "number": found.number, "rate": found.rate}
            self._replace("lanes", columns)

    def lanes(self, place: Place) -> Lanes | None:
        """None where they were not measured."""
        found = self.system_lanes(place.system).get((place.mpi, place.mpi_version))
        return Lanes(*found) if found else None

    def system_lanes(self, system: str) -> dict[tuple[str, str], tuple[int, float]]:
        """MPI library and version -> number and rate."""
        rows = self._rows(
            "SELECT mpi_library.name, version, number, rate FROM lanes"
            " JOIN mpi_library ON mpi_library.id = lanes.mpi_library"
            " JOIN system ON system.id = lanes.system WHERE system.name = ?",
            system,
        )
        return {row[:2]: row[2:] for row in rows}

    def record_run(self, run: RunRecord) -> bool:
        """Stores one launch completely or not at all. Returns False if it was stored before."""
        with self.transaction():
            if self._rows("SELECT 1 FROM run WHERE uuid = ?", run.uuid):
                return False
            place = run.place
            library = self._id("mpi_library", name=place.mpi, version=place.mpi_version)
            run_id = self._id(
                "run",
                uuid=run.uuid,
                system=self._id("system", name=place.system),
                mpi_library=library,
                layout=self._id("layout", name=place.layout, nodes=run.nodes, ranks=run.ranks),
                started=run.started,
                tool_version=run.tool_version,
                reframe_version=run.reframe_version,
                hosts=json.dumps(run.hosts),
                seed=run.seed,
                launcher=run.start.launcher,
                pmi=run.start.pmi,
                switches=json.dumps(run.start.switches),
                scheduler_job=run.scheduler_job,
                seconds=run.seconds,
            )
            for result in run.results:
                self._record_result(run_id, result)
            # A variant that fails wins no more, on any layout or system.
            for collective in {one.variant.collective for one in run.results if not one.verified}:
                self._note(mpi_library=library, collective=collective)
        return True

    def replace_winners(
        self,
        place: Place,
        collective: str,
        choices: Sequence[Choice],
        undecided: Sequence[Undecided] = (),
    ) -> None:
        """Replaces the winners of a collective at a measured place (database key) by `choices`.

        `undecided` are the sizes that were measured and have no winner.
        Every chosen variant other than native needs a passing verification with this MPI library
        and no failing one. Otherwise raises Unverified and keeps the old winners.
        """
        decided = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        with self.transaction():
            at = {**self._library(place), "layout": self._id("layout", name=place.layout)}
            for table in ("winner", "undecided"):
                self._rows(
                    f"DELETE FROM {table} WHERE system = :system AND mpi_library = :mpi_library"
                    " AND layout = :layout AND collective = :collective",
                    **at,
                    collective=collective,
                )
            for one in undecided:
                self._insert(
                    "undecided",
                    **at,
                    collective=collective,
                    bytes=one.bytes,
                    launches=one.launches,
                    reason=one.reason,
                )
            for choice in choices:
                variant_id = self._variant_id(choice.variant)
                self._insert(
                    "winner",
                    **at,
                    collective=collective,
                    bytes=choice.bytes,
                    variant=variant_id,
                    ratio=choice.ratio,
                    ratio_low=choice.low,
                    ratio_high=choice.high,
                    launches=choice.launches,
                    verification=self._passing_verification(choice.variant, variant_id, **at),
                    decided=decided,
                    evidence=choice.evidence,
                    seconds=choice.seconds,
                )
            self._note(**at, collective=collective)

    def replace_map(self, place: Place, points: Sequence[MapPoint]) -> None:
        """Replaces the map of a place's system and MPI library; the place's layout does not matter.

        The rule of replace_winners on verifications holds here, too.
        """
        with self.transaction():
            at = self._library(place)
            self._rows(
                "DELETE FROM point WHERE system = :system AND mpi_library = :mpi_library", **at
            )
            for one in points:
                variant_id = self._variant_id(one.variant)
                self._insert(
                    "point",
                    **at,
                    nodes=one.nodes,
                    ranks_per_node=one.ranks_per_node,
                    collective=one.variant.collective,
                    bytes=one.bytes,
                    variant=variant_id,
                    ratio=one.ratio,
                    ratio_low=one.low,
                    evidence=one.evidence,
                    sources=json.dumps(one.sources),
                    verification=self._passing_verification(
                        one.variant, variant_id, **at, layout=0
                    ),
                )

    def map(self, place: Place, collective: str = "") -> list[MapPoint]:
        """The map of a place's system and MPI library, sorted; '' stands for all collectives."""
        rows = self._rows(
            f"SELECT nodes, ranks_per_node, bytes, {_VARIANT}, ratio, ratio_low, evidence, sources"
            " FROM point JOIN system ON system.id = point.system"
            " JOIN mpi_library ON mpi_library.id = point.mpi_library"
            " JOIN variant ON variant.id = point.variant"
            " WHERE system.name = :system AND mpi_library.name = :mpi AND version = :version"
            " AND :collective IN ('', point.collective)"
            " ORDER BY nodes, ranks_per_node, point.collective, bytes",
            system=place.system,
            mpi=place.mpi,
            version=place.mpi_version,
            collective=collective,
        )
        return [
            MapPoint(
                nodes, ranks, size, Variant(*variant), ratio, low, kind, tuple(json.loads(sources))
            )
            for nodes, ranks, size, *variant, ratio, low, kind, sources in rows
        ]

    def places(self) -> list[Place]:
        """Every place (database key) with a stored run, sorted."""
        columns = "system.name, mpi_library.name, mpi_library.version, layout.name"
        return sorted(Place(*row) for row in self._rows(f"SELECT DISTINCT {columns} {_RUNS}"))

    def runs(self, *, counted: bool = True) -> list[StoredRun]:
        """Every launch, in the order of storing, which is that of decisions.

        ``counted``: with the numbers of its measurements and verifications, which takes long for many.
        """
        counts = (
            "(SELECT count(*) FROM measurement WHERE measurement.run = run.id)",
            "(SELECT count(*) FROM verification WHERE verification.run = run.id)",
            "(SELECT count(*) FROM verification WHERE verification.run = run.id AND NOT passed)",
        )
        rows = self._rows(
            "SELECT run.uuid, system.name, mpi_library.name, mpi_library.version, layout.name, started,"
            " hosts, launcher, pmi, switches, scheduler_job, seconds,"
            f" {', '.join(counts) if counted else '0, 0, 0'} {_RUNS} ORDER BY run.id"
        )
        return [
            StoredRun(
                row[0],
                Place(*row[1:5]),
                row[5],
                tuple(json.loads(row[6])),
                Start(row[7], row[8], tuple(json.loads(row[9]))),
                *row[12:],
                *row[10:12],
            )
            for row in rows
        ]

    def measurements(
        self,
        place: Place,
        collective: str | None = None,
        *,
        whole: bool = False,
        anew: bool = False,
    ) -> list[Measurement]:
        """The measurements at a place (database key), sorted by problem, then by run.

        Those that count (`begin_epoch`); ``whole``: all. ``anew``: none of before an epoch, even where
        nothing was measured since.
        """
        rows = self._rows(
            f"SELECT run.uuid, problem, measurement.bytes, {_VARIANT}, samples, median, late, start_errors,"
            f" measurement.collective, started {_RUNS}"
            " JOIN measurement ON measurement.run = run.id"
            " JOIN variant ON variant.id = measurement.variant"
            " WHERE system.name = :system AND mpi_library.name = :mpi"
            " AND mpi_library.version = :version AND layout.name = :layout"
            " AND :collective IN ('', measurement.collective)"
            " ORDER BY problem, run.id, measurement.id",
            system=place.system,
            mpi=place.mpi,
            version=place.mpi_version,
            layout=place.layout,
            collective=collective or "",
        )
        newest = {(row[-2], row[2]): row[-1] for row in sorted(rows, key=lambda row: row[-1])}
        begins = {} if whole else self._begins(place, None if anew else newest)
        return [
            Measurement(
                uuid,
                problem,
                size,
                Variant(*variant),
                tuple(json.loads(samples)),
                median,
                late,
                tuple(json.loads(errors)),
            )
            for uuid, problem, size, *variant, samples, median, late, errors, of, started in rows
            if started >= begins.get((of, size), "")
        ]

    def served_medians(self) -> list[ServedMedian]:
        """Of all winners and of native at their sizes, in the order of the launches."""
        rows = self._rows(
            "SELECT uuid, system.name, mpi_library.name, version, layout.name,"
            f" {_VARIANT}, measurement.bytes, median, started, hosts {_RUNS}"
            " JOIN measurement ON measurement.run = run.id"
            " JOIN variant ON variant.id = measurement.variant"
            " JOIN winner ON winner.system = run.system AND winner.mpi_library = run.mpi_library"
            " AND winner.layout = run.layout AND winner.collective = measurement.collective"
            " AND winner.bytes = measurement.bytes"
            " WHERE measurement.variant = winner.variant OR variant.family = 'native'"
            " ORDER BY run.id"
        )
        return [
            ServedMedian(
                uuid, Place(*at), Variant(*name), nbytes, median, started, tuple(json.loads(hosts))
            )
            for uuid, *row, nbytes, median, started, hosts in rows
            for at, name in [(row[:4], row[4:])]
        ]

    def verified(self, mpi: str, mpi_version: str) -> frozenset[Variant]:
        """The variants with a passing verification with an MPI library and no failing one."""
        rows = self._rows(
            f"SELECT {_VARIANT} {_RUNS}"
            " JOIN verification ON verification.run = run.id"
            " JOIN variant ON variant.id = verification.variant"
            " WHERE mpi_library.name = ? AND mpi_library.version = ?"
            " GROUP BY variant.id HAVING min(passed) = 1",
            mpi,
            mpi_version,
        )
        return frozenset(Variant(*row) for row in rows)

    def failures(self, mpi: str, mpi_version: str) -> list[Verification]:
        """The failed verifications with an MPI library, oldest first."""
        rows = self._rows(
            f"SELECT run.uuid, problem, {_VARIANT}, detail {_RUNS}"
            " JOIN verification ON verification.run = run.id"
            " JOIN variant ON variant.id = verification.variant"
            " WHERE mpi_library.name = ? AND mpi_library.version = ? AND NOT passed"
            " ORDER BY verification.id",
            mpi,
            mpi_version,
        )
        return [
            Verification(uuid, problem, Variant(*variant), False, detail)
            for uuid, problem, *variant, detail in rows
        ]

    def winners_at(self, place: Place) -> list[Winner]:
        """The winners at a place (database key), sorted by collective and size."""
        found = self.winners(place.system, place.mpi, place.layout)
        return [one for one in found if one.place == place]

    def winners(
        self, system: str = "", mpi: str = "", layout: str = "", collective: str = ""
    ) -> list[Winner]:
        """The winners, sorted by place (database key), collective and size; '' stands for all."""
        rows = self._rows(
            "SELECT system, mpi, mpi_version, layout, host_pattern, bytes, collective, family,"
            " parameters, fingerprint, ratio, ratio_low, ratio_high, launches, evidence,"
            " seconds, decided FROM winner_view"
            " WHERE :system IN ('', system) AND :mpi IN ('', mpi)"
            " AND :layout IN ('', layout) AND :collective IN ('', collective)"
            " ORDER BY system, mpi, mpi_version, layout, collective, bytes",
            system=system,
            mpi=mpi,
            layout=layout,
            collective=collective,
        )
        return [
            Winner(
                Place(*row[:4]), row[4], Choice(row[5], Variant(*row[6:10]), *row[10:16]), row[16]
            )
            for row in rows
        ]

    def undecided(
        self, system: str = "", mpi: str = "", layout: str = "", collective: str = ""
    ) -> list[tuple[Place, Undecided]]:
        """The sizes that were measured and have no winner, sorted as the winners are; '' stands for all."""
        rows = self._rows(
            "SELECT system.name, mpi_library.name, version, layout.name, collective, bytes, launches,"
            " reason FROM undecided JOIN system ON system.id = undecided.system"
            " JOIN mpi_library ON mpi_library.id = undecided.mpi_library"
            " JOIN layout ON layout.id = undecided.layout"
            " WHERE :system IN ('', system.name) AND :mpi IN ('', mpi_library.name)"
            " AND :layout IN ('', layout.name) AND :collective IN ('', collective)"
            " ORDER BY 1, 2, 3, 4, 5, 6",
            system=system,
            mpi=mpi,
            layout=layout,
            collective=collective,
        )
        return [(Place(*row[:4]), Undecided(*row[4:])) for row in rows]

    def _record_result(self, run_id: int, result: Result) -> None:
        variant_id = self._variant_id(result.variant)
        self._insert(
            "verification",
            run=run_id,
            variant=variant_id,
            problem=result.problem,
            passed=int(result.verified),
            detail=result.detail,
        )
        if result.samples:
            self._insert(
                "measurement",
                run=run_id,
                variant=variant_id,
                problem=result.problem,
                collective=result.variant.collective,
                bytes=result.bytes,
                samples=json.dumps(result.samples),
                median=statistics.median(result.samples),
                late=result.late,
                start_errors=json.dumps(result.start_errors),
            )

    def _passing_verification(
        self, variant: Variant, variant_id: int, system: int, mpi_library: int, layout: int
    ) -> int | None:
        """The id of the newest verification, of this place if possible. The schema checks if it suffices."""
        if variant.is_native:
            return None
        rows = self._rows(
            "SELECT verification.id FROM verification JOIN run ON run.id = verification.run"
            " WHERE verification.variant = ? AND run.mpi_library = ? AND passed"
            " ORDER BY run.system = ? DESC, run.layout = ? DESC, verification.id DESC LIMIT 1",
            variant_id,
            mpi_library,
            system,
            layout,
        )
        return rows[0][0] if rows else None
