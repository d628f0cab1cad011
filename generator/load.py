"""Reads the TOML specs into the model. An unknown or missing key is an error that names file and key."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from collforge.errors import CollforgeError

from . import splits, window
from .manifest import Parameter
from .model import (
    Algorithm,
    Argument,
    Collective,
    Composition,
    Family,
    Result,
    Specs,
    Step,
)
from .predicates import COUNTS, FACTS, INT_MAX, Expression, parse
from .roles import TYPES, Role
from .steps import BUFFER, OPTIONAL, PLACES, STEPS
from .terms import LaneTerm, cost_expression

SPECS = Path(__file__).parent / "specs"
SIZED = ("block", "mean", "exchanged", "none")
VARIES = ("no", "source", "target", "pair")
IN_PLACE = ("none", "send_all", "send_root", "recv_root")

MOST_LANES = Parameter(
    "lanes",
    (0, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64),
    neutral=0,
    minimum=1,
    below="min_node_size",
    summary="The number of lanes. 0: as many as the smallest node has ranks. (One lane would be the family "
    "hierarchical.)",
)
"""The parameter of families with ``lanes = "any"``."""


class SpecError(CollforgeError):
    """A spec is wrong; the message names the file and the key."""


class _Table:
    """A TOML table whose keys are read one by one. A key that was not read is an error at the end."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self.values = dict(values)
        self.where = where

    def take(self, key: str, kind: type, default: Any = None) -> Any:
        if key not in self.values:
            if default is not None:
                return default
            raise SpecError(f"{self.where}: key {key!r} is missing")
        value = self.values.pop(key)
        if not isinstance(value, kind):
            raise SpecError(f"{self.where}: {key!r} must be a {kind.__name__}, not {value!r}")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        return str(self.take(key, str, default)).strip().replace("\n", " ")

    def choice(self, key: str, known: Sequence[str], default: str | None = None) -> str:
        value = self.text(key, default)
        if value not in known:
            raise SpecError(f"{self.where}: {key} = {value!r}; known are {', '.join(known)}")
        return value

    def expression(self, key: str, names: Sequence[str], default: str | None = None) -> Expression:
        return parse(self.text(key, default), tuple(names), f"{self.where}: {key}")

    def table(self, key: str, default: Mapping[str, Any] | None = None) -> _Table:
        return _Table(self.take(key, dict, default), f"{self.where}: [{key}]")

    def tables(self, key: str) -> list[_Table]:
        rows = self.take(key, list, [])
        return [_Table(row, f"{self.where}: {key} {n}") for n, row in enumerate(rows, 1)]

    def finish(self) -> None:
        if self.values:
            raise SpecError(f"{self.where}: unknown key {min(self.values)!r}")


def load_specs(root: Path = SPECS) -> Specs:
    """All specs below ``root``. Raises SpecError or ExpressionError, which name file and key."""
    roles = _roles(root / "roles.toml")
    collectives = _load_folder(root / "collectives", lambda table: _collective(table, roles))
    algorithms = _load_folder(root / "algorithms", _algorithm)
    families = _load_folder(root / "families", lambda table: _family(table, collectives))
    return Specs(roles, collectives, families, algorithms)


def _load_folder(folder: Path, read: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in sorted(folder.glob("*.toml")):
        table = _read(path, f"{folder.name}/{path.name}")
        item = read(table)
        table.finish()
        if item.name != path.stem:
            raise SpecError(f"{table.where}: name = {item.name!r} must be the file's name")
        found[item.name] = item
    return found


def _read(path: Path, where: str) -> _Table:
    try:
        return _Table(tomllib.loads(path.read_text(encoding="utf-8")), where)
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"{where}: {error}") from error


def _roles(path: Path) -> dict[str, Role]:
    file = _read(path, path.name)
    found: dict[str, Role] = {}
    types: dict[str, str] = {}
    for name in list(file.values):
        table = file.table(name)
        kind = table.choice("kind", tuple(TYPES))
        role = Role(
            name=name,
            kind=kind,
            type=table.choice("type", TYPES[kind]),
            members=tuple(table.take("members", list, [name])),
            plain=table.text("plain"),
        )
        table.finish()
        for member in role.members:
            if types.setdefault(member, role.type) != role.type:
                raise SpecError(f"{table.where}: {member!r} of another role is a {types[member]}")
        found[name] = role
    return found


def _collective(table: _Table, roles: Mapping[str, Role]) -> Collective:
    arguments = []
    for row in table.take("signature", list):
        if not (isinstance(row, list) and len(row) == 2 and row[1] in roles):
            raise SpecError(
                f"{table.where}: signature: {row!r} is not [name, role] with a role of roles.toml: "
                + ", ".join(roles)
            )
        arguments.append(Argument(row[0], roles[row[1]]))
    result = table.table("result")
    places = ("rank", "root", "size")
    collective = Collective(
        name=table.text("name"),
        function=table.text("function"),
        summary=table.text("summary"),
        standard=table.text("standard"),
        arguments=tuple(arguments),
        block_side=table.choice("block_side", ("send", "recv"), "recv"),
        sized=table.choice("sized", SIZED, "block"),
        varies=table.choice("varies", VARIES, "no"),
        in_place=table.choice("in_place", IN_PLACE),
        has_blocks=table.take("has_blocks", bool),
        bound=table.expression("bound", ("nodes", "node_size", "bytes")),
        native=table.text("native", ""),
        result=Result(
            in_blocks=result.expression("in_blocks", places),
            out_blocks=result.expression("out_blocks", places),
            first=result.expression("first", (*places, "block")),
            last=result.expression("last", (*places, "block")),
            source_block=result.expression("source_block", (*places, "block")),
            in_place_block=result.expression("in_place_block", places, "0"),
        ),
    )
    result.finish()
    return collective


def _needs(table: _Table, values: Sequence[Any]) -> dict[str, str]:
    found = {
        value: table.expression(value, FACTS).text for value in values if value in table.values
    }
    table.finish()
    return found


def _parameter(table: _Table, requires: Mapping[str, tuple[str, ...]]) -> Parameter:
    values = tuple(table.take("values", list))
    numeric = all(isinstance(value, int) for value in values)
    asked = table.take("requires", dict, {})
    requires = {**requires, **{name: tuple(of) for name, of in asked.items()}}
    parameter = Parameter(
        name=table.text("name"),
        summary=table.text("summary"),
        values=values,
        requires=dict(requires),
        neutral=0 if numeric else values[0] if asked else None,
        minimum=table.take("minimum", int, min(values)) if numeric else None,
        maximum=table.take("maximum", int, INT_MAX) if numeric else INT_MAX,
        below=table.choice("below", ("", *COUNTS, "threads"), ""),
        whole=table.choice("whole", ("", "bytes", "total_bytes"), ""),
        enough=table.choice("enough", ("", *COUNTS), ""),
        needs=_needs(table.table("needs", {}), values),
        fixed_order=tuple(table.take("fixed_order", list, [])),
    )
    table.finish()
    return parameter


def _algorithm(table: _Table) -> Algorithm:
    name = table.text("name")
    requires = {"lane_algorithm": (name,)}
    calls = tuple(table.take("calls", list))
    return Algorithm(
        name=name,
        title=table.text("title"),
        summary=table.text("summary"),
        source=table.text("source"),
        calls=calls,
        anywhere=tuple(table.take("anywhere", list, [])),
        pipelined=table.take("pipelined", bool, False),
        parameters=tuple(_parameter(row, requires) for row in table.tables("parameter")),
        fixed_order=tuple(table.take("fixed_order", list, [])),
        costs=_costs(table.table("cost", {}), calls),
    )


def _costs(table: _Table, calls: Sequence[str]) -> dict[str, LaneTerm]:
    found = {}
    for call in list(table.values):
        if call not in calls:
            raise SpecError(f"{table.where}: {call!r} is not among its calls")
        row = table.table(call)
        texts = {key: row.text(key) for key in ("rounds", "moved", "messages")}
        for key, text in texts.items():
            cost_expression(text, f"{row.where}: {key}")
        row.finish()
        found[call] = LaneTerm(**texts)
    return found


def _family(table: _Table, collectives: Mapping[str, Collective]) -> Family:
    name, predicate = table.text("name"), table.text("predicate")
    title, summary, source = (
        table.text("title"),
        table.text("summary"),
        table.text("source"),
    )
    lanes = table.choice("lanes", ("full", "single", "any"))
    parameters = tuple(_parameter(row, {}) for row in table.tables("parameter"))
    if lanes == "any":
        lanes, parameters = "full", (MOST_LANES, *parameters)
    shapes = table.table("buffers", {})
    buffers = {key: shapes.choice(key, tuple(splits.SHAPES)) for key in list(shapes.values)}
    parts = table.table("views", {})
    views = {key: parts.choice(key, window.VIEWS) for key in list(parts.values)}
    names = (*buffers, *views, "input", "output")
    compositions: dict[str, Composition] = {}
    for key in [key for key in table.values if key in collectives]:
        part = table.table(key)
        compositions[key] = _composition(part, predicate, names, compositions)
    return Family(name, title, summary, source, lanes, parameters, buffers, views, compositions)


def _composition(
    table: _Table,
    predicate: str,
    buffers: Sequence[str],
    before: Mapping[str, Composition],
) -> Composition:
    own = table.text("predicate", "")
    text = f"{predicate} and ({own})" if own else predicate
    if "like" in table.values:
        steps = before[table.choice("like", tuple(before))].steps
    else:
        steps = tuple(_step(row, buffers) for row in table.tables("steps"))
    if not steps:
        raise SpecError(f"{table.where}: key 'steps' is missing or empty")
    spare = table.expression("spare", tuple(PLACES)) if "spare" in table.values else None
    table.finish()
    return Composition(steps, parse(text, FACTS, f"{table.where}: predicate"), spare)


def _step(table: _Table, buffers: Sequence[str]) -> Step:
    call = table.choice("call", tuple(STEPS))
    where = table.expression("where", tuple(PLACES)) if "where" in table.values else None
    options = {key: table.text(key) for key in list(table.values)}
    known = STEPS[call].keys
    for key, value in options.items():
        if key not in known:
            raise SpecError(f"{table.where}: unknown key {key!r}; {call} takes {', '.join(known)}")
        allowed = buffers if known[key] == BUFFER else known[key]
        if value not in allowed:
            raise SpecError(f"{table.where}: {key} = {value!r}; known are {', '.join(allowed)}")
    missing = [key for key in known if key not in options and key not in OPTIONAL]
    if missing:
        raise SpecError(f"{table.where}: key {missing[0]!r} is missing; {call} needs it")
    return Step(call, where, options)
