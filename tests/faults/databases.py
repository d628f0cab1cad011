"""Makes valid databases and damaged copies of them."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

from collforge.db import Choice, Result, RunRecord, Store
from collforge.generator.manifest import Manifest
from collforge.layout import from_name
from collforge.mpi_library import MpiLibrary
from collforge.place import Place
from collforge.variant import Variant

NEVER = "2026-01-01T00:00:00Z"
SIZES = [1 << shift for shift in range(21)]

# The registry in loader.c: collective, family, parameters, fingerprint.
LOADER_VARIANTS = [
    Variant("bcast", "full_lane", "lane_algorithm=ring,segment_bytes=4096", "b1b1"),
    Variant("bcast", "hierarchical", "", "b2b2"),
    Variant("allreduce", "full_lane", "lane_algorithm=chain,segment_bytes=16384", "a1a1"),
    Variant("gather", "hierarchical", "", "c2c2"),
    Variant("gather"),
]


def manifest_variants(made: Manifest) -> list[Variant]:
    """Every variant of the manifest, with its first parameters."""
    return [
        Variant.from_name(
            entry.collective,
            entry.name(entry.points(from_name("2x2").facts())[0]),
            entry.fingerprint,
        )
        for entry in made.variants
    ]


def write(
    path: Path,
    library: MpiLibrary,
    variants: Sequence[Variant],
    layouts: Iterable[str] = ("2x2",),
    system: str = "here",
) -> Path:
    """Stores winners at all SIZES; the variants of a collective take turns."""
    with Store(path) as store:
        for layout in layouts:
            place = Place(system, library.name, library.version.splitlines()[0].strip(), layout)
            problem = f"problem@{layout}"
            results = tuple(
                Result(one, problem, SIZES[0], verified=True)
                for one in variants
                if not one.is_native
            )
            store.record_run(
                RunRecord(
                    f"{system}{layout}{library.name}", place, 2, 4, NEVER, "", "", (), 0, results
                )
            )
            for name in dict.fromkeys(one.collective for one in variants):
                own = [one for one in variants if one.collective == name]
                store.replace_winners(
                    place,
                    name,
                    [
                        Choice(size, own[i % len(own)], 1.5, 1.4, 1.6, 3, seconds=2e-5)
                        for i, size in enumerate(SIZES)
                    ],
                )
    return path


def rewrite(path: Path, script: str) -> Path:
    """Runs SQL without the schema's triggers and checks."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous = 0")
        db.execute("PRAGMA ignore_check_constraints = 1")
        for name in _names(db, "trigger"):
            db.execute(f"DROP TRIGGER {name}")
        db.executescript(script)
    return path


def unguard(path: Path) -> Path:
    """A copy whose tables accept any value and duplicates, and have no indexes."""
    copy = path.with_suffix(".unguarded")
    shutil.copy(path, copy)
    statements = ["PRAGMA legacy_alter_table = 1"]
    with closing(sqlite3.connect(path)) as db:
        for name in _names(db, "table"):
            statements.append(f"CREATE TABLE copy AS SELECT * FROM {name}")
            statements.append(f"DROP TABLE {name}")
            statements.append(f"ALTER TABLE copy RENAME TO {name}")
    return rewrite(copy, ";".join(statements))


def _names(db: sqlite3.Connection, kind: str) -> list[str]:
    query = "SELECT name FROM sqlite_master WHERE type = ?"
    return [name for (name,) in db.execute(query, (kind,)).fetchall()]
