"""What `collforge` alone prints: the commands that a newcomer needs, by task."""

TASKS = {
    "start": {
        "doctor": "what this machine has, and how to get what is missing",
        "tune": "find the fastest correct variants, and store them",
        "run": "run a program with them (--gain: how much faster it is)",
    },
    "look": {
        "winners": "what was found",
        "why": "why one call is served as it is",
        "report": "the evidence, and plots",
    },
    "your application": {
        "profile": "what it calls, and what tuning would bring",
        "bench": "time collectives against the native ones",
    },
    "a site": {
        "mpi": "find the MPI libraries, and name them",
        "site": "find the queue; defaults of all commands",
        "install": "one tree for all users, with modulefiles",
    },
}


def text(others: list[str]) -> str:
    """The commands of TASKS, and the names of the others."""
    named = [name for each in TASKS.values() for name in each]
    lines = ["Collforge makes the MPI collectives of this machine faster.", ""]
    for task, each in TASKS.items():
        lines += [f"{task}:"] + [f"  collforge {name:<10}{what}" for name, what in each.items()]
    rest = ", ".join(name for name in others if name not in named)
    return "\n".join(
        [
            *lines,
            "",
            f"more: {rest}",
            "`collforge COMMAND --help` explains a command, with an example",
        ]
    )
