"""The C runtime built with a stub registry (tests/c/stub): variants that count their runs."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from support import execute, launch_local, make_folder

from collforge.generator import load, render, roles
from collforge.toolchain import libraries

HERE = Path(__file__).resolve().parent
RUNTIME = HERE.parent / "runtime"


def make_stub() -> Path:
    """The folder of the stub for generated C: tests/c/stub, and the headers that the runtime needs."""
    folder = make_folder("stub")
    specs = load.load_specs(load.SPECS)
    environment = render._environment(render.TEMPLATES)
    values = {
        "version": "of the tests",
        "algorithms": list(specs.algorithms.values()),
        "members": roles.members(specs.roles.values()),
    }
    files = {path.name: path.read_text() for path in (HERE / "c" / "stub").iterdir()}
    for name in ("arguments.h", "lane_algorithms.h"):
        files[name] = environment.get_template(f"{name}.j2").render(values)
    for path, text in ((folder / name, text) for name, text in files.items()):
        if not path.exists() or path.read_text() != text:
            own = path.with_name(f"{path.name}.{os.getpid()}")
            own.write_text(text)
            own.replace(path)
    return folder


STUB = make_stub()


@dataclass(frozen=True)
class Output:
    """The output of a finished process; ``log`` has Collforge's lines on standard error."""

    code: int
    out: list[str]
    log: list[str]


@dataclass(frozen=True)
class Build:
    """The runtime for one MPI library; ``version`` is the result of MPI_Get_library_version."""

    mpi: str
    folder: Path
    version: str
    flags: str = ""
    """Additional flags of the compiler and the linker."""

    @property
    def library(self) -> Path:
        return self.folder / "libcollforge.so"

    def make(self, generated: Path, *options: str) -> int:
        """Runs make and returns its exit code."""
        names = {
            "MPICC": f"mpicc.{self.mpi}",
            "OUT": str(self.folder),
            "VERSION": "1.2.3",
            "CFLAGS": self.flags,
            "LDFLAGS": self.flags,
        }
        variables = [f"{name}={value}" for name, value in names.items()]
        # Another process of the tests may build in the same folder.
        self.folder.mkdir(exist_ok=True)
        command = ["flock", str(self.folder), "make", "-j2", "-C", str(RUNTIME), *variables]
        command += [f"GENERATED={generated}"]
        return execute([*command, *options, str(self.library)], timeout=300).returncode

    def link(self, source: Path) -> None:
        """Links a program with the runtime's object files, so that it can call hidden functions."""
        objects = (self.folder / "obj" / "library.list").read_text().split()
        flags = ["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-g", "-pthread"]
        flags += ["-Wall", "-Wextra", "-Werror", *self.flags.split()]
        flags += [f"-I{folder}" for folder in (RUNTIME / "src", RUNTIME / "include", STUB)]
        own = self.folder / f"{source.stem}.{os.getpid()}"
        command = [f"mpicc.{self.mpi}", *flags, str(source), "-o", str(own), *objects]
        assert execute([*command, "-lsqlite3", "-lm"]).returncode == 0
        own.replace(self.folder / source.stem)

    def units(self, *arguments: str) -> list[str]:
        """The lines that tests/c/units.c prints."""
        done = execute([str(self.folder / "units"), *arguments])
        assert done.returncode == 0
        return done.stdout.split("\n")[:-1]

    def launch(self, ranks: int, *command: str, **variables: str) -> Output:
        done = launch_local(self.mpi, ranks, command, variables)
        log = [line for line in done.stderr.splitlines() if line.startswith("collforge: ")]
        return Output(done.returncode, done.stdout.splitlines(), log)

    def program(self, ranks: int, command: str, **variables: str) -> Output:
        """Runs a command of tests/c/program.c; all its checks must succeed."""
        done = self.launch(ranks, str(self.folder / "program"), command, **variables)
        assert done.code == 0
        return done

    def passes(
        self, name: str, ranks: int, nodes: str, *words: str | int, **variables: str
    ) -> Output:
        """Runs a program whose last line must report success. ``nodes``: the node map, '' for real nodes."""
        command = [str(self.folder / name), *map(str, words)]
        pretended = {"COLLFORGE_NODE_MAP": nodes} if nodes else {}
        done = self.launch(ranks, *command, **pretended, **variables)
        case = f"{self.mpi}: {ranks} ranks on nodes {nodes}: {name} {' '.join(map(str, words))}"
        assert (done.code, done.out[-1:]) == (0, ["passed"]), case
        return done

    def runs(self, **variables: str) -> tuple[int, list[str]]:
        """Runs a program on four ranks; returns the number of variants that ran on rank 0, and the log."""
        done = self.program(4, "results", **variables)
        found = re.fullmatch(r"runs (\d+) .* version 1\.2\.3", done.out[-1])
        assert found
        return int(found[1]), done.log


def link_alone(
    built: Path, generated: Path, sources: Sequence[Path], folder: Path, *flags: str
) -> Path:
    """Links a program that has an MPI library of its own with the runtime's objects, built for MPICH.

    It is named after its first source. Functions that its MPI library lacks abort.
    """
    objects = (built / "obj" / "library.list").read_text().split()
    options = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"]
    options += [f"-I{path}" for path in (RUNTIME / "src", RUNTIME / "include", generated)]
    program = folder / sources[0].stem
    own = []
    for source in sources:
        own.append(f"{program}-{source.stem}.o")
        assert execute(["mpicc.mpich", *options, "-c", str(source), "-o", own[-1]]).returncode == 0
    symbols = execute(["nm", *objects, *own]).stdout
    wanted = set(re.findall(r" U (P?MPIX?_\w+)$", symbols, re.MULTILINE))
    there = set(re.findall(r" [TtVW] (P?MPIX?_\w+)$", symbols, re.MULTILINE))
    missing = folder / f"{program.name}-missing.c"
    text = "#include <stdio.h>\n#include <stdlib.h>\n"
    for one in sorted(wanted - there):
        text += f'void {one}(void) {{ fputs("{one} is not there\\n", stderr); abort(); }}\n'
    missing.write_text(text)
    # gcc instead of mpicc, which would add its MPI library.
    command = ["gcc", "-pthread", *objects, *own, str(missing), *flags, "-o", str(program)]
    assert execute([*command, "-ldl", "-lm"]).returncode == 0
    return program


def make_build(mpi: str, *programs: str, flags: str = "") -> Build:
    """Builds the runtime and ``programs`` (sources in tests/c) below the tests' shared home.

    A build with flags has its own folder.
    """
    folder = make_folder(f"stub-{mpi}{flags and '-flags'}")
    built = Build(mpi, folder, libraries.find(mpi).version, flags)
    assert built.make(STUB) == 0
    for name in programs:
        built.link(HERE / "c" / f"{name}.c")
    return built
