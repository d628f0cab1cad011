"""SimGrid's SMPI, which runs MPI programs in simulated time, as an MPI library.

It has one name for each native library whose choice of algorithms it emulates.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from collforge.mpi_library import MpiLibrary

COMPILER, LAUNCHER = "smpicc", "smpirun"
FOLDER = "smpi"
"""Of the build, which all names share."""
RULES = {
    "smpi-openmpi": "ompi",
    "smpi-mpich": "mpich",
    "smpi-mvapich2": "mvapich2",
    "smpi-impi": "impi",
}
"""Name -> SimGrid's smpi/coll-selector."""

SETTINGS = {
    "smpi/simulate-computation": "no",
    "smpi/host-speed": "1Gf",
    "network/model": "SMPI",
    "smpi/bw-factor": "0:1",
    "smpi/lat-factor": "0:1",
    "network/crosstraffic": "0",
    "network/TCP-gamma": "0",
    # The default takes 350 us at a thousand ranks, and leaves them that far apart.
    "smpi/barrier": "ompi_bruck",
    # Else short messages overtake long ones of the same sender. So none arrives before it is waited for.
    "smpi/async-small-thresh": "0",
}
"""No factors of SimGrid's on the rates of the platform, and computation takes no time."""

_ONE_HOST = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="cluster" routing="Full"><host id="host" speed="1Gf"/></zone></platform>
"""


def tools() -> tuple[Path, Path] | None:
    """The compiler wrapper and the launcher; None if they are not installed."""
    compiler, launcher = shutil.which(COMPILER), shutil.which(LAUNCHER)
    return (Path(compiler), Path(launcher)) if compiler and launcher else None


def stands_for(library: MpiLibrary) -> str:
    """The flavor of MPI library whose choice of algorithms a library has."""
    rules = RULES.get(library.name)
    return library.flavor if rules is None else "openmpi" if rules == "ompi" else "mpich"


def smpirun(launcher: Path, platform: Path, hosts: Path) -> list[str]:
    """The launcher on a platform, without its number of ranks."""
    files = ["-platform", str(platform), "-hostfile", str(hosts)]
    return [str(launcher), *files, "--log=root.thres:warning"]


def is_compiler(mpicc: Path) -> bool:
    """Whether its programs run in simulations only."""
    return mpicc.name == COMPILER


def one_rank(folder: Path) -> list[str]:
    """The command prefix that runs a program on one rank; its files go to a folder."""
    platform, hosts = folder / "one.xml", folder / "one.hosts"
    platform.write_text(_ONE_HOST, encoding="utf-8")
    hosts.write_text("host\n", encoding="utf-8")
    return [*smpirun(Path(LAUNCHER), platform, hosts), "-np", "1"]
