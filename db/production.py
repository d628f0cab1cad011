"""What production jobs, nights and applications tell: rows beside those of the tuner's launches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields

from collforge.db.history import History
from collforge.db.records import (
    Epoch,
    Finding,
    JobRecord,
    JobUse,
    Learnt,
    NativeBest,
    StoredProfile,
    Tree,
    Verdict,
)
from collforge.layout import from_name
from collforge.place import Place
from collforge.variant import Variant

VARIANT = "variant.collective, variant.family, variant.parameters, variant.fingerprint"

_FINDING = (
    *("partition", "environment", "found", "scheduler_job", "test", "problem", "variable"),
    *("value", "unit", "reference", "low", "high"),
)


class Production(History):
    """An open database that keeps what production tells."""

    def record_job(self, job: JobRecord) -> bool:
        """Stores a job completely or not at all. Returns False if it was stored before."""
        with self.transaction():
            if self._rows("SELECT 1 FROM job WHERE digest = ?", job.digest):
                return False
            row = self._insert(
                "job",
                digest=job.digest,
                **self._library(job.place),
                owner=job.owner,
                ended=job.ended,
                tool_version=job.tool_version,
            )
            for one in job.verdicts:
                self._insert(
                    "verdict",
                    job=row,
                    layout=self._layout_id(one.layout),
                    variant=self._variant_id(one.variant),
                    bytes=one.bytes,
                    native=one.native,
                    seconds=one.seconds,
                    pairs=one.pairs,
                    again=int(one.again),
                    kept=int(one.kept),
                )
        return True

    def jobs(self, place: Place) -> list[JobRecord]:
        """The jobs with a place's system and MPI library, in the order of their ends."""
        found: dict[str, tuple[tuple[str, str, str], list[Verdict]]] = {}
        for (
            digest,
            owner,
            ended,
            version,
            layout,
            *variant,
            size,
            native,
            seconds,
            pairs,
            again,
            kept,
        ) in self._rows(
            f"SELECT digest, owner, ended, tool_version, layout.name, {VARIANT}, bytes, native, seconds,"
            " pairs, again, kept FROM job"
            " JOIN system ON system.id = job.system JOIN mpi_library ON mpi_library.id = job.mpi_library"
            " JOIN verdict ON verdict.job = job.id JOIN layout ON layout.id = verdict.layout"
            " JOIN variant ON variant.id = verdict.variant"
            " WHERE system.name = ? AND mpi_library.name = ? AND version = ?"
            " ORDER BY ended, digest, verdict.id",
            *(place.system, place.mpi, place.mpi_version),
        ):
            _, verdicts = found.setdefault(digest, ((owner, ended, version), []))
            verdicts.append(
                Verdict(
                    *(layout, Variant(*variant), size, native, seconds, pairs),
                    *(bool(again), bool(kept)),
                )
            )
        return [
            JobRecord(digest, place.library, *about, tuple(verdicts))
            for digest, (about, verdicts) in found.items()
        ]

    def job_places(self) -> list[Place]:
        """Of each stored job the system and the MPI library, each once, sorted."""
        rows = self._rows(
            "SELECT DISTINCT system.name, mpi_library.name, version, '' FROM job"
            " JOIN system ON system.id = job.system JOIN mpi_library ON mpi_library.id = job.mpi_library"
        )
        return sorted(Place(*row) for row in rows)

    def replace_learnt(self, place: Place, rows: Iterable[Learnt]) -> None:
        """Replaces what is learnt of a place's system and MPI library."""
        with self.transaction():
            at = self._library(place)
            self._rows(
                "DELETE FROM learnt WHERE system = :system AND mpi_library = :mpi_library", **at
            )
            for one in rows:
                self._insert(
                    "learnt",
                    **at,
                    layout=self._layout_id(one.layout),
                    variant=self._variant_id(one.variant),
                    bytes=one.bytes,
                    confirmed=int(one.confirmed),
                    ratio=one.ratio,
                    jobs=one.jobs,
                    owners=one.owners,
                    first=one.first,
                    last=one.last,
                )

    def learnt(self, place: Place) -> list[Learnt]:
        """What is learnt of a place's system and MPI library, sorted by layout, collective and size."""
        rows = self._rows(
            f"SELECT layout.name, {VARIANT}, bytes, confirmed, ratio, jobs, owners, first, last"
            " FROM learnt JOIN system ON system.id = learnt.system"
            " JOIN mpi_library ON mpi_library.id = learnt.mpi_library"
            " JOIN layout ON layout.id = learnt.layout JOIN variant ON variant.id = learnt.variant"
            " WHERE system.name = ? AND mpi_library.name = ? AND version = ?"
            " ORDER BY layout.name, collective, bytes, family, parameters, fingerprint",
            *(place.system, place.mpi, place.mpi_version),
        )
        return [
            Learnt(layout, Variant(*variant), size, bool(confirmed), *rest)
            for layout, *variant, size, confirmed, ratio, jobs, owners, first, last in rows
            for rest in [(ratio, jobs, owners, first, last)]
        ]

    def begin_epoch(self, place: Place, collective: str, nbytes: int, begins: str) -> bool:
        """From the first launch since a date on, those of before count no more for a problem, but stay.

        Returns False if that was known.
        """
        with self.transaction():
            at = {**self._library(place), "layout": self._layout_id(place.layout)}
            row = {**at, "collective": collective, "bytes": nbytes, "begins": begins}
            same = " AND ".join(f"{name} = :{name}" for name in row)
            if self._rows(f"SELECT 1 FROM epoch WHERE {same}", **row):
                return False
            self._insert("epoch", **row)
            return True

    def _begins(
        self, place: Place, newest: Mapping[tuple[str, int], str] | None
    ) -> dict[tuple[str, int], str]:
        """Collective and bytes -> since when launches count. ``newest``: the last ones; None: all hold."""
        return {
            (one.collective, one.bytes): one.begins
            for one in self.epochs(place.system)  # the last one that holds stays
            if one.place == place
            and (newest is None or one.begins <= newest.get((one.collective, one.bytes), ""))
        }

    def epochs(self, system: str = "") -> list[Epoch]:
        """Those of a system ('': all)."""
        rows = self._rows(
            "SELECT system.name, mpi_library.name, version, layout.name, collective, bytes, begins FROM epoch"
            " JOIN system ON system.id = epoch.system JOIN mpi_library ON mpi_library.id = epoch.mpi_library"
            " JOIN layout ON layout.id = epoch.layout WHERE ? IN ('', system.name)"
            " ORDER BY 1, 2, 3, 4, 5, 6, 7",
            system,
        )
        return [Epoch(Place(*row[:4]), *row[4:]) for row in rows]

    def record_native_best(self, found: Iterable[NativeBest]) -> None:
        """Replaces what is known of the same problems."""
        with self.transaction():
            for one in found:
                columns = {
                    **self._library(one.place),
                    "layout": self._layout_id(one.place.layout),
                    "collective": one.collective,
                    "bytes": one.bytes,
                    "algorithm": one.algorithm,
                    "seconds": one.seconds,
                }
                self._replace("native_best", columns)

    def native_best(self) -> list[NativeBest]:
        rows = self._rows(
            "SELECT system.name, mpi_library.name, version, layout.name, collective, bytes, algorithm,"
            " seconds FROM native_best JOIN system ON system.id = native_best.system"
            " JOIN mpi_library ON mpi_library.id = native_best.mpi_library"
            " JOIN layout ON layout.id = native_best.layout ORDER BY 1, 2, 3, 4, 5, 6"
        )
        return [NativeBest(Place(*row[:4]), *row[4:]) for row in rows]

    def record_findings(self, findings: Iterable[Finding]) -> int:
        """Returns how many were new."""
        with self.transaction():
            before = self._count("finding")
            for one in findings:
                names = ", ".join(("system", *_FINDING, "passed"))
                values = [getattr(one, name) for name in _FINDING]
                marks = ", ".join("?" * (len(values) + 2))
                self._rows(
                    f"INSERT OR IGNORE INTO finding ({names}) VALUES ({marks})",
                    *(self._id("system", name=one.system), *values, int(one.passed)),
                )
            return self._count("finding") - before

    def findings(self, system: str = "", since: str = "", failed: bool = False) -> list[Finding]:
        """Those of a system ('': all) from a date on, the newest first. ``failed``: only those that did."""
        columns = ", ".join(f"finding.{name}" for name in _FINDING)
        rows = self._rows(
            f"SELECT system.name, {columns}, passed FROM finding JOIN system ON system.id = finding.system"
            " WHERE ? IN ('', system.name) AND found >= ? AND (passed = 0 OR NOT ?)"
            " ORDER BY found DESC, finding.id DESC",
            *(system, since, int(failed)),
        )
        return [Finding(*(*row[:-1], bool(row[-1]))) for row in rows]

    def failing(self, system: str = "") -> list[Finding]:
        """The newest of each value of each check on a system ('': all), if it failed; the newest first."""
        columns = ", ".join(f"finding.{name}" for name in _FINDING)
        rows = self._rows(
            # Beside max(), SQLite takes the other columns from the row that has it.
            f"SELECT system.name, {columns}, passed, max(found) FROM finding"
            " JOIN system ON system.id = finding.system WHERE ? IN ('', system.name)"
            " GROUP BY system.name, environment, test, problem, variable HAVING NOT passed"
            " ORDER BY found DESC, finding.id DESC",
            system,
        )
        return [Finding(*(*row[:-2], False)) for row in rows]

    def record_profile(self, profile: StoredProfile) -> None:
        """Replaces the profile of this name."""
        with self.transaction():
            columns = {**vars(profile), "system": self._id("system", name=profile.system)}
            self._replace("profile", columns)

    def profiles(self, system: str = "") -> Sequence[StoredProfile]:
        """Those of a system ('': all), sorted by name."""
        rows = self._rows(
            "SELECT system.name, profile.name, stored, content FROM profile"
            " JOIN system ON system.id = profile.system WHERE ? IN ('', system.name) ORDER BY 1, 2",
            system,
        )
        return [StoredProfile(*row) for row in rows]

    def record_tree(self, one: Tree) -> None:
        """Replaces the tree of this folder."""
        self._replace("tree", vars(one))

    def trees(self) -> list[Tree]:
        """Those that were installed last, first."""
        names = ", ".join(field.name for field in fields(Tree))
        return [
            Tree(*row) for row in self._rows(f"SELECT {names} FROM tree ORDER BY installed DESC")
        ]

    def record_use(self, one: JobUse) -> None:
        """Replaces what is known of the month."""
        self._replace("job_use", vars(one))

    def uses(self) -> list[JobUse]:
        """The newest month first."""
        names = ", ".join(field.name for field in fields(JobUse))
        return [
            JobUse(*row) for row in self._rows(f"SELECT {names} FROM job_use ORDER BY month DESC")
        ]

    def _replace(self, table: str, columns: Mapping[str, object]) -> None:
        names, marks = ", ".join(columns), ", ".join(f":{name}" for name in columns)
        self._rows(f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({marks})", **columns)

    def _library(self, place: Place) -> dict[str, int]:
        """The ids of a place's system and MPI library."""
        return {
            "system": self._id("system", name=place.system),
            "mpi_library": self._id("mpi_library", name=place.mpi, version=place.mpi_version),
        }

    def _layout_id(self, name: str) -> int:
        at = from_name(name).launched
        return self._id("layout", name=name, nodes=at.nodes, ranks=at.size)

    def _variant_id(self, variant: Variant) -> int:
        return self._id(
            "variant",
            collective=variant.collective,
            family=variant.family,
            parameters=variant.parameters,
            fingerprint=variant.fingerprint,
        )

    def _count(self, table: str) -> int:
        return int(self._rows(f"SELECT count(*) FROM {table}")[0][0])
