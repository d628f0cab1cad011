"""The command prefix that runs a program on all ranks of a simulated machine."""

from __future__ import annotations

import hashlib
from pathlib import Path

from collforge.home import home, make_folder, replace_file
from collforge.layout import Layout
from collforge.reframe_checks.systems.simulated.machine import Machine, MachineError
from collforge.reframe_checks.systems.simulated.platform import hosts, platform
from collforge.toolchain import libraries, preload, simgrid

_NATIVE = Path(__file__).parent / "native.cpp"


def command(mpi: str, machine: Machine, at: Layout) -> list[str]:
    """Writes the files that describe the machine, too. Raises CollforgeError if SimGrid is not installed.

    Times are those of messages, of reductions, and of a message's overhead on its processor: loads and stores,
    such as those of shared windows, take none.
    """
    library = libraries.find(mpi)
    folder = make_folder(home() / "simulated")
    label = f"{machine.name}-{hashlib.sha256(at.name.encode()).hexdigest()[:12]}"
    files = {"xml": platform(machine, at), "hosts": hosts(at)}
    for ending, text in files.items():
        replace_file(folder / f"{label}.{ending}", text.encode(), 0o600)
    native = preload.build(["smpicxx"], _NATIVE, folder, "libsimgrid-dev g++", MachineError)
    sending = f"0:{machine.overhead:g}e-6:1e-10;{machine.eager:.0f}:{machine.overhead:g}e-6:0"
    settings = {
        **simgrid.SETTINGS,
        "smpi/os": sending,
        "smpi/ois": sending,
        "smpi/or": f"0:{machine.overhead:g}e-6:0",
        "smpi/send-is-detached-thresh": f"{machine.eager:.0f}",
        "smpi/coll-selector": simgrid.RULES[mpi],
    }
    return [
        "env",
        f"LD_PRELOAD={native}",
        f"SMPI_RULES={simgrid.RULES[mpi]}",
        f"SMPI_OP_NS={machine.op:g}",
        "COLLFORGE_START_TIMEOUT=60",
        *simgrid.smpirun(library.mpirun, folder / f"{label}.xml", folder / f"{label}.hosts"),
        *("-np", str(at.size)),
        *(f"--cfg={name}:{value}" for name, value in settings.items()),
    ]
