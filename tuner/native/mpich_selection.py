"""MPICH's selection files, which say by conditions on the call which algorithm runs.

MPICH searches two trees (src/mpi/coll/src/csel.c). That of its device ch4 decides whether a call is composed of
calls on the node's and the leaders' communicators or goes as a whole to the common algorithms. The common tree
names the algorithm. A file replaces a whole tree, and MPICH aborts when the search finds nothing. But the
library has its own trees as JSON text inside, so the files are these with rules put in.

What one version of csel.c says (read, not tried one by one; launches with 4.0.2 and 5.0.2 run under files that
heed it):

* A tree is cut to size for each communicator by its first conditions only. Deeper, ``comm_size<N`` is read as
  ``<=``. So rules use ``<=``, and what they contain has no condition on a size that is known.
* Sizes are known by collective: ``avg_msg_size`` (bytes of a block) or ``total_msg_size`` (of all blocks); for
  scan there is none.
* The search does not check that an algorithm serves the call. So each rule also has the algorithm's own
  conditions, and other calls of this size go where they went before.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from collforge.errors import CollforgeError
from collforge.home import home, new_folder
from collforge.mpi_library import MpiLibrary
from collforge.toolchain import libraries
from collforge.tuner.decide.plan import WORD
from collforge.tuner.native import read_back
from collforge.tuner.native.export import OWN_CHOICE, Choices, TuningFile, mark, steps_of
from collforge.tuner.native.read_back import Asked, Row
from collforge.tuner.run.jobs import Site

Tree = dict[str, Any]
"""Condition -> tree. A leaf names an algorithm or a composition, with its parameters below."""


@dataclass(frozen=True)
class Step:
    """The algorithm for sizes from ``start`` bytes on, as the file counts them, to the next step."""

    start: int
    number: int
    wrong: bool = False
    """Whether calls that come here abort, which tells that they come here."""


Steps = Sequence[Step]
"""In ascending order. The first one starts at 0."""

# Collective -> algorithm -> what it needs of a call (CONDITIONS). Algorithms with parameters of their own
# (trees, radices) are not here.
ALGORITHMS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "allgather": {"brucks": (), "recursive_doubling": ("power of two",), "ring": (), "nb": ()},
    "allreduce": {
        "recursive_doubling": (),
        "reduce_scatter_allgather": ("built-in op", "enough elements"),
        "ring": ("commutative",),
        "smp": ("commutative", "nodes"),
        "nb": (),
    },
    "alltoall": {
        "brucks": ("not in place",),
        "pairwise": ("not in place",),
        "scattered": ("not in place",),
        "nb": ("not in place",),
    },
    "bcast": {
        "binomial": (),
        "scatter_recursive_doubling_allgather": ("power of two",),
        "scatter_ring_allgather": (),
        "smp": ("nodes",),
        "nb": (),
    },
    # No smp: MPICH 4.0.2 crashes in an in-place reduce (issue 6540), and whether smp does was not tried.
    "reduce": {
        "binomial": (),
        "reduce_scatter_gather": ("built-in op", "enough elements"),
        "nb": (),
    },
    "reduce_scatter_block": {
        "noncommutative": ("power of two",),
        "pairwise": ("commutative",),
        "recursive_doubling": (),
        "recursive_halving": ("commutative",),
        "nb": (),
    },
    "scan": {"recursive_doubling": (), "smp": ("consecutive",), "nb": ()},
}
# What a call needs -> the condition that holds, and the one for all other calls.
CONDITIONS = {
    "built-in op": ("is_op_built_in=yes", "is_op_built_in=no"),
    "commutative": ("is_commutative=yes", "is_commutative=no"),
    "consecutive": ("is_node_consecutive=yes", "is_node_consecutive=no"),
    "enough elements": ("count=any", "count<pow2"),
    "nodes": ("comm_hierarchy=parent", "comm_hierarchy=any"),
    "not in place": ("is_sendbuf_inplace=no", "is_sendbuf_inplace=yes"),
}
SIZE_OF = {
    "allgather": "total_msg_size",
    "allreduce": "avg_msg_size",
    "alltoall": "avg_msg_size",
    "bcast": "avg_msg_size",
    "reduce": "avg_msg_size",
    "reduce_scatter_block": "total_msg_size",
}
"""Collective -> the size that a condition can ask for. A collective that is missing has none."""
UNSIZED = tuple(name for name in ALGORITHMS if name not in SIZE_OF)
NOT_EXPORTED = {
    **dict.fromkeys(
        ("gather", "scatter", "gatherv", "scatterv", "exscan"),
        "besides a form of the nonblocking call, MPICH has one algorithm of it",
    ),
    **dict.fromkeys(
        ("allgatherv", "alltoallv", "reduce_scatter"),
        "blocks of different sizes are not timed here",
    ),
    "barrier": "it has no bytes, and its algorithms are not timed here",
}
"""Collective -> why it is not exported."""
HEALTHY = ("exscan", 8)
"""A call that never has a rule."""
# MPICH aborts in a call that comes to another collective's algorithm.
WRONG = "algorithm=MPIR_Exscan_intra_recursive_doubling"
_MOST = 2**31 - 1  # MPICH reads sizes as int
_PAGE = 4096


@dataclass(frozen=True)
class Trees:
    """The trees that a library has inside."""

    common: Tree
    device: Tree
    """Empty if the library's device is not ch4."""
    names: frozenset[str]
    """The algorithms that a file may name, e.g. MPIR_Bcast_intra_smp."""

    @classmethod
    def of(cls, library: MpiLibrary) -> Trees:
        """Raises CollforgeError for a library that has none, as MPICH before 4.0."""
        if library.flavor != "mpich":
            raise CollforgeError(f"{library.name} is not MPICH: use --to openmpi")
        data = shared_object(library).read_bytes()
        found = [json.loads(text) for text in re.findall(rb'\{"collective=[^\0]*(?=\0)', data)]
        of_kind = {_kind(tree): tree for tree in found}
        if "algorithm=MPIR" not in of_kind:
            raise CollforgeError(
                f"{library.name} ({library.short_version}) has no selection trees inside; "
                "MPICH 4.0.2 and 5.0.2 have"
            )
        names = frozenset(map(bytes.decode, re.findall(rb"algorithm=(MPIR_\w+)(?=\0)", data)))
        return cls(of_kind["algorithm=MPIR"], of_kind.get("composition=MPIDI", {}), names)

    def algorithms(self, ranks: int) -> dict[str, dict[int, str]]:
        """Collective -> number -> name of the algorithms that run on this many ranks."""
        return {
            collective: {
                number: name
                for number, (name, needs) in enumerate(known.items(), OWN_CHOICE + 1)
                if _function(collective, name) in self.names
                and (not ranks & (ranks - 1) or "power of two" not in needs)
            }
            for collective, known in ALGORITHMS.items()
        }


def shared_object(library: MpiLibrary) -> Path:
    """The file of the MPI library that its programs load."""
    with libraries.probe_program(library.mpicc) as program:
        done = subprocess.run(
            ["ldd", program], capture_output=True, text=True, check=True, timeout=60
        )
    found = re.search(r"libmpi(?:ch)?\.so\S* => (\S+)", done.stdout)
    if not found:
        raise CollforgeError(f"programs of {library.mpicc} do not load an MPICH library")
    return Path(found[1])


def common_tree(trees: Trees, ranks: int, rules: Mapping[str, Steps]) -> Tree:
    """The common tree with rules for communicators of exactly this size."""
    tree = dict(trees.common)
    for collective, steps in rules.items():

        def put(base: Tree, name: str = collective, of_one: Steps = steps) -> Tree:
            return _by_size(name, [(one.start, _leaf(name, one, base)) for one in of_one])

        tree[f"collective={collective}"] = _put(tree[f"collective={collective}"], ranks, put)
    return tree


def device_tree(trees: Trees, ranks: int, rules: Mapping[str, Steps]) -> Tree:
    """The tree of ch4 in which calls with a rule go as a whole to the common tree."""
    tree = dict(trees.device)
    for collective, steps in rules.items():
        if f"collective={collective}" not in tree:
            continue

        def put(base: Tree, name: str = collective, of_one: Steps = steps) -> Tree:
            whole = _last_leaf(base)
            return _by_size(
                name, [(one.start, whole if one.number != OWN_CHOICE else base) for one in of_one]
            )

        tree[f"collective={collective}"] = _put(tree[f"collective={collective}"], ranks, put)
    return tree


@dataclass(frozen=True)
class SelectionFile(TuningFile):
    """MPICH's selection file of the common tree, and beside it that of the device."""

    trees: Trees

    begins = "/*\n"
    not_exported = NOT_EXPORTED
    unsized = UNSIZED
    no_sizes = "MPICH's conditions do not know its size"

    def own_settings(self) -> Mapping[str, str] | None:
        return None

    def forced(self, number: int) -> Mapping[str, str]:
        path = new_folder(home() / "runs", "forced") / "rules.json"
        rules = {
            name: [Step(0, number)] for name, known in self.algorithms.items() if number in known
        }
        write_trees(
            self.trees, self.ranks, rules, path, f"Forces algorithm {number} of each collective."
        )
        return variables(self.trees, path)

    def variables(self) -> Mapping[str, str]:
        return variables(self.trees, self.path)

    def files(self) -> list[Path]:
        return [self.path, *([device_path(self.path)] if self.trees.device else [])]

    def write(self, choices: Choices, rows: Sequence[Row] = ()) -> None:
        head = [f"{mark(self.ranks)}; use both files with"]
        files = {str(self.path): "THIS_FILE", str(device_path(self.path)): "THIS_FILE.ch4"}
        head += [f"  {name}={files[value]}" for name, value in self.variables().items()]
        text = "\n".join([*head, *self.remarks(choices, rows)])
        write_trees(self.trees, self.ranks, self.steps(choices), self.path, text)

    def steps(self, choices: Choices) -> dict[str, list[Step]]:
        """The rules of the collectives that have any."""
        return {
            name: [Step(*one) for one in steps_of(rules, self._scale(name), name in UNSIZED)]
            for name, rules in choices.items()
            if any(rules.values())
        }

    def read_back(self, site: Site, layout: str, choices: Choices, folder: Path) -> list[Row]:
        """Whether MPICH follows each rule. It cannot tell which algorithm runs, but where a call comes to.

        All calls must return under the file. Then, in a launch for each rule, the call must not return: the
        file of this launch makes calls of just this size abort when they come to the rule.
        """
        asked = self.asked(choices)
        calls = [(one.collective, one.bytes) for one in asked]
        found = read_back.calls(site, layout, self.variables(), calls, folder)
        rows = []
        for one in asked:
            entered = found.get((one.collective, one.bytes))
            if entered is None:
                rows.append(Row(one, "", read_back.ENDED))
                break
            why = "MPI returned an error" if entered.failed else ""
            if not why and not self._comes_here(site, layout, choices, one, folder):
                why = "the call does not come to the rule"
            rows.append(Row(one, "" if why else one.title, why))
        return rows

    def _comes_here(
        self, site: Site, layout: str, choices: Choices, asked: Asked, folder: Path
    ) -> bool:
        """Whether a call aborts when its rule names an algorithm that cannot run."""
        # The program calls with whole doubles.
        size = -(-asked.bytes // WORD) * WORD * self._scale(asked.collective)
        rules = self.steps(choices)
        rules[asked.collective] = _with_wrong(rules[asked.collective], asked.collective, size)
        path = new_folder(folder, "wrong") / "rules.json"
        write_trees(
            self.trees, self.ranks, rules, path, f"{asked.collective}: {asked.bytes} aborts."
        )
        # The first call shows that the launch is in order.
        calls = [HEALTHY, (asked.collective, asked.bytes)]
        found = read_back.calls(site, layout, variables(self.trees, path), calls, folder)
        return HEALTHY in found and calls[1] not in found

    def _scale(self, collective: str) -> int:
        return self.ranks if SIZE_OF.get(collective) == "total_msg_size" else 1


def _with_wrong(steps: Sequence[Step], collective: str, size: int) -> list[Step]:
    """The steps, but calls of just this size abort, or all calls if the collective has no sizes."""
    if collective in UNSIZED:
        return [replace(steps[0], wrong=True)]
    at = max(i for i, step in enumerate(steps) if step.start <= size)
    before = [step for step in steps[: at + 1] if step.start < size]
    rest = [step for step in steps[at + 1 :] if step.start > size + 1]
    number = steps[at].number
    return [*before, Step(size, number, wrong=True), Step(size + 1, number), *rest]


def write_trees(
    trees: Trees, ranks: int, rules: Mapping[str, Steps], path: Path, remarks: str
) -> None:
    """Writes the file of the common tree and, beside it, that of the device, each with the remarks as head."""
    for file, tree in zip(
        (path, device_path(path)),
        (common_tree(trees, ranks, rules), device_tree(trees, ranks, rules)),
    ):
        # MPICH's reader knows comments.
        text = f"/*\n{remarks.replace('*/', '* /')}*/\n{json.dumps(tree, indent=1)}\n"
        # MPICH maps the file and reads on to a NUL, which is there unless the last page is full.
        file.write_text(text + "\n" * (len(text.encode()) % _PAGE == 0), encoding="utf-8")


def variables(trees: Trees, path: Path) -> dict[str, str]:
    """The environment variables that make MPICH read the files."""
    device = {"MPIR_CVAR_CH4_COLL_SELECTION_TUNING_JSON_FILE": str(device_path(path))}
    return {
        "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE": str(path),
        **(device if trees.device else {}),
    }


def device_path(path: Path) -> Path:
    return path.with_name(f"{path.stem}.ch4{path.suffix}")


def _kind(tree: Tree) -> str:
    """The kind and the maker of what a tree selects: algorithm=MPIR, algorithm=MPIDI or composition=MPIDI."""
    return next(iter(_last_leaf(tree))).split("_")[0]


def _last_leaf(tree: Tree) -> Tree:
    """What a tree selects if no condition holds; in ch4's, that is to hand over the whole call."""
    while not next(iter(tree)).startswith(("algorithm=", "composition=")):
        tree = tree[list(tree)[-1]]
    return tree


def _function(collective: str, name: str) -> str:
    serves = "allcomm" if name == "nb" else "intra"
    return f"MPIR_{collective.capitalize()}_{serves}_{name}"


def _leaf(collective: str, step: Step, base: Tree) -> Tree:
    """What a rule selects: the algorithm for calls that it serves, else the tree that was there before."""
    if step.number == OWN_CHOICE:
        return base
    name = list(ALGORITHMS[collective])[step.number - 1]
    tree: Tree = {WRONG if step.wrong else f"algorithm={_function(collective, name)}": {}}
    for need in ALGORITHMS[collective][name]:
        if need in CONDITIONS:
            holds, else_ = CONDITIONS[need]
            both = {holds: tree, else_: base}
            # A condition that always holds has to be the last one.
            tree = dict(sorted(both.items(), key=lambda item: item[0].endswith("=any")))
    return tree


def _by_size(collective: str, steps: Sequence[tuple[int, Tree]]) -> Tree:
    """The trees by the least size for which they hold."""
    if collective not in SIZE_OF:
        return steps[0][1]
    size = SIZE_OF[collective]
    ends = [min(start, _MOST) for start, _ in steps[1:]]
    tree = {f"{size}<{end}": one for end, (_, one) in zip(ends, steps)}
    return {**tree, f"{size}=any": steps[-1][1]}


def _put(tree: Tree, ranks: int, put: Callable[[Tree], Tree]) -> Tree:
    """A collective's tree, changed for communicators of exactly this size."""
    inside = tree.get("comm_type=intra", tree)
    changed = {
        f"comm_size<={ranks - 1}": inside,
        f"comm_size<={ranks}": put(_sized(inside, ranks)),
        "comm_size=any": inside,
    }
    return {**tree, "comm_type=intra": changed} if inside is not tree else changed


def _sized(tree: Tree, ranks: int) -> Tree:
    """The tree without conditions on the communicator's size, which is this one."""
    found: Tree = {}
    for condition, below in tree.items():
        holds = _holds(condition, ranks)
        if holds is None:
            found[condition] = _sized(below, ranks)
        elif holds and not found:
            return _sized(below, ranks)
        elif holds:
            return {**found, "comm_size=any": _sized(below, ranks)}
    return found


def _holds(condition: str, ranks: int) -> bool | None:
    """Whether a condition on the size of the communicator holds; None for other conditions."""
    if condition in ("comm_size=any", "comm_size=pow2"):
        return condition.endswith("any") or not ranks & (ranks - 1)
    limit = re.fullmatch(r"comm_size<(=?)(\d+)", condition)
    return ranks < int(limit[2]) + len(limit[1]) if limit else None
