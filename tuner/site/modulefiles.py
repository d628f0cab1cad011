"""Modulefiles of an installed tree: Lua for Lmod, Tcl for Environment Modules (and for Lmod without Lua).

They find the tree from their own path, so that it can be moved. Links in it are resolved: a job goes on with
the tree that it began with when a link is set to the next one. The modules exclude each other, because a
process can have the runtime of one MPI library only. MANPATH is not set: man would no longer find other pages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path("share", "modulefiles")
NAME = "collforge"
HELP = (
    "Programs started with this module loaded use tuned MPI collectives.",
    "Load it in job scripts, after the MPI library's own module, and not in login shells: every command of",
    "the shell gets LD_PRELOAD. With Open MPI on several nodes:",
    "    mpirun {names} ./app",
    "COLLFORGE_VERBOSE=1 tells whether it is active. All variables: man -M TREE/share/man 7 collforge",
)

TOLD = r"Open MPI v\d+\.\d+\.\d+|MPICH \S+"
"""The names of libraries whose versions mpi.h tells, too."""
# Both read the version of the mpicc that is first in PATH, and start no program. Where they cannot tell, they
# say nothing.
CHECK_LUA = r"""
if mode() == "load" then
  for folder in (os.getenv("PATH") or ""):gmatch("[^:]+") do
    if isFile(folder .. "/mpicc") then
      local header = io.open(folder .. "/../include/mpi.h")
      local text = header and header:read("*a") or ""
      local mpich = text:match('define%s+MPICH_VERSION%s+"([^"]+)"')
      local major = text:match("define%s+OMPI_MAJOR_VERSION%s+(%d+)")
      local minor = text:match("define%s+OMPI_MINOR_VERSION%s+(%d+)")
      local release = text:match("define%s+OMPI_RELEASE_VERSION%s+(%d+)")
      local openmpi = major and minor and release and major .. "." .. minor .. "." .. release
      local found = mpich and "MPICH " .. mpich or openmpi and "Open MPI v" .. openmpi
      if found and found ~= expected then
        -- Not LmodMessage, which would break the line.
        io.stderr:write("collforge: warning: this module is for " .. expected .. ", but first in PATH is "
          .. found .. " (" .. folder .. "), whose programs find no winners\n")
      end
      break
    end
  end
end"""
CHECK_TCL = r"""
    foreach folder [split $::env(PATH) :] {
        if {![file isfile $folder/mpicc]} {continue}
        set text ""
        catch {
            set header [open $folder/../include/mpi.h]
            set text [read $header]
            close $header
        }
        set found $expected
        if {[regexp {define\s+MPICH_VERSION\s+"([^"]+)"} $text all mpich]} {
            set found "MPICH $mpich"
        } elseif {[regexp {define\s+OMPI_MAJOR_VERSION\s+(\d+)} $text all major]
            && [regexp {define\s+OMPI_MINOR_VERSION\s+(\d+)} $text all minor]
            && [regexp {define\s+OMPI_RELEASE_VERSION\s+(\d+)} $text all release]} {
            set found "Open MPI v$major.$minor.$release"
        }
        if {$found ne $expected} {
            puts stderr "collforge: warning: this module is for $expected, but first in PATH is\
                $found ($folder), whose programs find no winners"
        }
        break
    }
}"""


@dataclass(frozen=True)
class Modulefile:
    """What the module of one MPI library does. Paths are relative to the tree."""

    mpi: str
    version: str
    """Of the module: a file name."""
    library: str
    """The MPI library as tables show it: ``Open MPI v4.1.4``."""
    prepended: Mapping[str, str]
    """Variable -> path that is put in front of it."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """Variable -> path that it is set to."""
    values: Mapping[str, str] = field(default_factory=dict)
    """Variable -> value that it is set to."""
    requires: str = ""
    """The site's module of the MPI library, which is loaded first; '' if it is not known."""

    @property
    def path(self) -> Path:
        """The Tcl file's path; the Lua file has the ending .lua."""
        return FOLDER / NAME / self.mpi / self.version

    def files(self) -> Iterator[tuple[Path, str]]:
        for ending, lines in (("", self._tcl()), (".lua", self._lua())):
            yield self.path.with_name(self.path.name + ending), "".join(f"{one}\n" for one in lines)

    @property
    def _help(self) -> list[str]:
        """The lines of HELP, with the options that pass all that the module sets to the ranks."""
        names = " ".join(f"-x {name}" for name in ("LD_PRELOAD", *self.paths, *self.values))
        return [line.format(names=names) for line in HELP]

    @property
    def _summary(self) -> str:
        return f"tuned MPI collectives for {self.library}"

    def _lua(self) -> Iterator[str]:
        yield f"whatis({_quoted(self._summary)})"
        yield "help([[" + "\n".join(self._help) + "]])"
        yield f'family("{NAME}")'
        if self.requires:
            yield f"depends_on({_quoted(self.requires)})"
        yield f'local root = abspath(myFileName()):match("^(.*)/{FOLDER}/")'
        for name, path in self.prepended.items():
            yield f'prepend_path("{name}", pathJoin(root, {_quoted(path)}))'
        for name, path in self.paths.items():
            yield f'setenv("{name}", pathJoin(root, {_quoted(path)}))'
        for name, value in self.values.items():
            yield f'setenv("{name}", {_quoted(value)})'
        if expected := re.match(TOLD, self.library):
            yield f"local expected = {_quoted(expected[0])}"
            yield CHECK_LUA.lstrip()

    def _tcl(self) -> Iterator[str]:
        yield "#%Module1.0"
        yield f"module-whatis {{{self._summary}}}"
        yield "proc ModulesHelp {} {"
        yield from (f"    puts stderr {{{line}}}" for line in self._help)
        yield "}"
        # Lmod knows `family` alone here, and Environment Modules before 5.1 `conflict` alone.
        yield f'if {{[info commands family] ne ""}} {{family {NAME}}}'
        yield f"conflict {NAME}"
        if self.requires:
            # Environment Modules before 5.1 know `prereq` alone; Lmod's does not load what is missing.
            command = '[expr {[info commands depends-on] eq "" ? "prereq" : "depends-on"}]'
            yield f"{command} {self.requires}"
        # The last part of a path is not resolved by `normalize`.
        yield "set root [file normalize [file dirname $ModulesCurrentModulefile]]"
        yield from ["set root [file dirname $root]"] * (len(self.path.parts) - 1)
        for name, path in self.prepended.items():
            yield f"prepend-path {name} $root/{path}"
        for name, path in self.paths.items():
            yield f"setenv {name} $root/{path}"
        for name, value in self.values.items():
            yield f"setenv {name} {{{value}}}"
        if expected := re.match(TOLD, self.library):
            # Lmod loads what a Tcl file depends on after the file was read.
            loaded = f" && [is-loaded {self.requires}]" if self.requires else ""
            yield f"set expected {{{expected[0]}}}"
            yield f"if {{[module-info mode load]{loaded} && [info exists ::env(PATH)]}} {{"
            yield CHECK_TCL[1:]


def _quoted(text: str) -> str:
    return json.dumps(text)
