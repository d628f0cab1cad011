"""Manual pages: collforge(1) from the commands' parsers, collforge(7) from the runtime's table of variables."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

import collforge
from collforge.home import database_path, home
from collforge.toolchain.build import RUNTIME

WIDTH = 78
TEXT = r'(?:\s|\\\n|"(?:[^"\\\n]|\\.)*")+'
VARIABLE = re.compile(rf"use\((\w+),({TEXT}),({TEXT})\)")
"""A row of CF_VARIABLES in environment.h: the name, the form of its value, and what it does, as C strings."""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """As wide as a page, whatever the terminal is."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=WIDTH)


def pages(parser: argparse.ArgumentParser) -> dict[str, str]:
    """File name -> page in the language of man(7)."""
    return {"man1/collforge.1": commands_page(parser), "man7/collforge.7": environment_page()}


def commands_page(parser: argparse.ArgumentParser) -> str:
    lines = _head(1, "User Commands", "tunes MPI collectives")
    lines += [".SH SYNOPSIS", ".B collforge", ".I COMMAND", "[options]", ".SH DESCRIPTION"]
    lines += [_escape(collforge.__doc__ or ""), ".SH COMMANDS"]
    for name, command in _commands(parser):
        lines += [f".SS {_escape(name)}", ".nf", _escape(_help(command)), ".fi"]
    return "\n".join([*lines, ".SH SEE ALSO", ".BR collforge (7)", ""])


def environment_page() -> str:
    lines = _head(7, "Miscellanea", "the environment of programs with tuned MPI collectives")
    lines += [
        ".SH DESCRIPTION",
        "A program under libcollforge.so, preloaded or linked, reads these variables in MPI_Init.",
        "COLLFORGE_VERBOSE=1 tells whether winners were loaded, and why not.",
        ".SH ENVIRONMENT",
    ]
    for name, form, meaning in variables():
        lines += [".TP", f".B {_escape(f'{name}={form}')}", _escape(meaning)]
    return "\n".join([*lines, ".SH SEE ALSO", ".BR collforge (1)", ""])


def variables() -> list[tuple[str, str, str]]:
    """The rows of the runtime's table: name, form of the value, meaning."""
    text = (RUNTIME / "src" / "base" / "environment.h").read_text(encoding="utf-8")
    return [
        (f"COLLFORGE_{name}", _literal(form), _literal(meaning))
        for name, form, meaning in VARIABLE.findall(text)
    ]


def _literal(text: str) -> str:
    """The value of adjacent C strings, which Python joins, too."""
    return str(ast.literal_eval(f"({text})"))


def _head(section: int, title: str, summary: str) -> list[str]:
    return [
        f'.TH COLLFORGE {section} "" "Collforge {collforge.__version__}" "{title}"',
        ".SH NAME",
        rf"collforge \- {summary}",
    ]


def _commands(
    parser: argparse.ArgumentParser,
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The commands, each followed by its own (`collforge cluster run`)."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                yield one.prog, one
                yield from _commands(one)


def _help(parser: argparse.ArgumentParser) -> str:
    """The --help text of a fixed width, without this user's paths."""
    parser.formatter_class = _Formatter
    for action in parser._actions:
        if isinstance(action.default, Path):
            action.default = _anywhere(action.default)
    return re.sub(r"\x1b\[[\d;]*m", "", parser.format_help())  # colours of newer Pythons


def _anywhere(path: Path) -> Path:
    """A default path, as any user has it."""
    if path == database_path():
        return Path("$COLLFORGE_HOME/collforge.db")
    if path.is_relative_to(home()):
        return Path("$COLLFORGE_HOME", path.relative_to(home()))
    return path


def _escape(text: str) -> str:
    """Text for roff: its backslashes and hyphens, and no line that begins like a request."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.MULTILINE)
