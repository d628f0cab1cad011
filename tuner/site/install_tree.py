"""The tree of `collforge install`: what users of a site need. It can be moved: it has no absolute paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

import collforge
from collforge.db.published import Section
from collforge.errors import CollforgeError
from collforge.home import home
from collforge.mpi_library import MpiLibrary
from collforge.toolchain.build import RUNTIME, Built, generated_folder
from collforge.tuner.site.installed import RECORD, SHARE, WINNERS, Record, is_tree
from collforge.tuner.site.modulefiles import Modulefile
from collforge.tuner.site.publishing import fits_preload, publish, write_file

MODULE_SOURCE = "collforge_hybrid.f90"

PKG_CONFIG = """\
prefix=${{pcfiledir}}/../..
libdir=${{prefix}}/lib/{mpi}
includedir=${{prefix}}/include
fortran_module=${{includedir}}/{module_source}

Name: collforge-{mpi}
Description: tuned MPI collectives for {library}
Version: {version}
Cflags: -I${{includedir}}
Libs: -L${{libdir}} -lcollforge -Wl,-rpath,${{libdir}}
"""

README = """\
Collforge {version}, a tree that may be moved as a whole. To remove it:
collforge uninstall --prefix THIS_TREE, or delete it.

{libraries}
Users: module use THIS_TREE/share/modulefiles && module load collforge/{mpi}
Checksum of the winners: cd THIS_TREE/share/collforge && sha256sum --check winners.txt.sha256
"""


def check_outside(path: Path) -> None:
    """Raises CollforgeError for the winners of an installed tree, whose modules have their checksum."""
    place = path.parent.resolve() / path.name
    if place.parts[-len(WINNERS.parts) :] == WINNERS.parts and (place.parent / "README").exists():
        raise CollforgeError(
            f"{path} belongs to an installed tree, whose modules take no other file: install a new tree"
        )


@dataclass(frozen=True)
class Part:
    """What the tree has for one MPI library."""

    library: MpiLibrary
    built: Built
    has_winners: bool
    settings: Mapping[str, str]
    """Variables that the winners need in addition."""
    module: str = ""
    """The site's module of the library, which is loaded first."""


@dataclass(frozen=True)
class Tree:
    """A tree that is being installed at the absolute path `prefix`."""

    prefix: Path
    module_version: str
    folders: Mapping[str, Path] = field(default_factory=dict)
    """Variable -> the folder in which jobs leave something."""

    def check(self) -> None:
        """Raises CollforgeError where no tree can be."""
        if not fits_preload(self.prefix):
            raise CollforgeError(
                f"LD_PRELOAD cannot carry the blanks or colons of {self.prefix}: take another --prefix"
            )
        if is_tree(self.prefix):
            raise CollforgeError(
                f"{self.prefix} has a tree already, which jobs may use: install the next one beside it, "
                f"or remove it first: `collforge uninstall --prefix {self.prefix}`"
            )
        if self.prefix.exists() and not (self.prefix.is_dir() and not any(self.prefix.iterdir())):
            raise CollforgeError(
                f"{self.prefix} is not empty: a tree, which is removed as a whole, needs a folder of its own"
            )

    def install(
        self, parts: Sequence[Part], found: Sequence[Section], pages: Mapping[str, str]
    ) -> str:
        """Writes all files, RECORD last: without it the tree is not complete.

        Returns the digest of the winners, '' if there are none.
        """
        for header in sorted((RUNTIME / "include").glob("*.h")):
            self._write(Path("include", header.name), header.read_bytes())
        module = generated_folder(home()) / MODULE_SOURCE
        self._write(Path("include", MODULE_SOURCE), module.read_bytes())
        for name, page in pages.items():
            self._write(Path("share", "man", name), page.encode())
        digest = publish(found, self._place(WINNERS)) if found else ""
        for part in parts:
            self._write_part(part, digest)
        text = README.format(
            version=collforge.__version__,
            mpi=parts[0].library.name,
            libraries="".join(
                f"lib/{part.library.name}: for {' '.join(part.library.first_line.split())}\n"
                for part in parts
            ),
        )
        self._write(SHARE / "README", text.encode())
        record = Record(
            version=collforge.__version__,
            module_version=self.module_version,
            date=datetime.now(timezone.utc).strftime("%Y-%m-%d"),
            libraries={part.library.name: part.library.first_line for part in parts},
            sha256=digest,
            files=sorted(
                str(one.relative_to(self.prefix))
                for one in (*self.prefix.rglob("*"), self.prefix / RECORD)
                if not one.is_dir()
            ),
        )
        self._write(RECORD, record.text)
        return digest

    def _write_part(self, part: Part, digest: str) -> None:
        mpi, library = part.library.name, part.library.short_version
        shared = Path("lib", mpi, "libcollforge.so")
        self._write(shared, part.built.library_path.read_bytes(), 0o755)
        text = PKG_CONFIG.format(
            mpi=mpi,
            library=library,
            version=collforge.__version__,
            module_source=MODULE_SOURCE,
        )
        self._write(Path("lib", "pkgconfig", f"collforge-{mpi}.pc"), text.encode())
        checked = {"COLLFORGE_DB_SHA256": digest, **part.settings} if part.has_winners else {}
        left = {variable: str(folder) for variable, folder in self.folders.items()}
        module = Modulefile(
            mpi,
            self.module_version,
            library,
            {"LD_PRELOAD": str(shared), "PKG_CONFIG_PATH": "lib/pkgconfig"},
            {"COLLFORGE_DB": str(WINNERS)} if part.has_winners else {},
            {**checked, **left},
            part.module,
        )
        for path, lines in module.files():
            self._write(path, lines.encode())

    def _place(self, path: Path) -> Path:
        """The path in the tree; missing folders are made, open to all users whatever the umask."""
        full = self.prefix / path
        missing = [folder for folder in full.parents if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir()
            folder.chmod(0o755)
        return full

    def _write(self, path: Path, data: bytes, mode: int = 0o644) -> None:
        write_file(self._place(path), data, mode)
