"""The command line. Each command is a module of collforge.tuner.cli.commands with

- `add_parser(subparsers)`: adds its parser, through `command.add_command`;
- `run(args) -> int`: does it and returns the exit code.

A module there with an `add_parser` is a command with no further change. Errors that the user can
fix are CollforgeErrors: one line and exit code 2. Slow imports belong inside `run`.
"""

from __future__ import annotations

import argparse
import difflib
import errno
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from types import FrameType
from typing import NoReturn

import collforge
from collforge.errors import CollforgeError, unknown
from collforge.tuner.cli import commands, overview, registry
from collforge.tuner.run.options import STANDARD_OUTPUT

USER_ERROR = 2
_ENDS = (signal.SIGTERM, signal.SIGHUP)
INTERRUPTED = 130
BROKEN_PIPE = 141


class Parser(argparse.ArgumentParser):
    """Its errors are one line, as those of the commands."""

    def error(self, message: str) -> NoReturn:
        raise CollforgeError(f"{message}; see `{self.prog} --help`")


def build_parser(only: str = "") -> tuple[argparse.ArgumentParser, dict[str, Parser]]:
    """The parser of the command line, and those of the commands. `only`: of this command, if there is one."""
    parser = Parser(
        prog="collforge",
        description=collforge.__doc__,
        epilog="example: collforge doctor; `collforge COMMAND --help` has an example of each command",
    )
    parser.add_argument("--version", action="version", version=f"collforge {collforge.__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in registry.find(commands, "add_parser", only).values():
        module.add_parser(subparsers)
    return parser, dict(subparsers.choices)


def complete() -> None:
    """Answers a shell that completes (`eval "$(register-python-argcomplete collforge)"`), and ends."""
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        words = os.environ.get("COMP_LINE", "").split()
        argcomplete.autocomplete(build_parser(words[1] if len(words) > 2 else "")[0])


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code; `arguments` default to the process's own."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        try:
            complete()
            return _run(words)
        finally:
            # Flush here: at exit a closed pipe or a full disk could no longer set the exit code.
            sys.stdout.flush()
    except CollforgeError as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe. Otherwise Python's flush at exit would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        fix = _fix(error)
        if fix is None:
            raise
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror}; {fix}")


def _run(words: Sequence[str]) -> int:
    first = words[0] if words and not words[0].startswith("-") else ""
    parser, known = build_parser(first)
    if not words:
        print(overview.text(list(known)))
        return 0
    if first and first not in known:
        raise unknown("command", first, known)
    args, rest = parser.parse_known_args(words)
    if rest:
        raise _unrecognized(known.get(first, parser), rest[0])
    args.words = words
    args.whole_parser = build_parser
    # As Ctrl-C: what the command has started ends with it. nohup ignores SIGHUP.
    for number in (signal.SIGINT, *_ENDS):
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _interrupt)
    if "prepare" in args:
        args.prepare(args)
    args.standard_output = sys.stdout
    with _other_output(args):
        code: int = args.run(args)
    return code


def _other_output(args: argparse.Namespace) -> AbstractContextManager[object]:
    """With `--json -` what is for people goes to standard error."""
    if getattr(args, "json", None) == STANDARD_OUTPUT:
        return redirect_stdout(sys.stderr)
    return nullcontext()


def _unrecognized(parser: argparse.ArgumentParser, word: str) -> CollforgeError:
    options = [name for action in parser._actions for name in action.option_strings]
    near = difflib.get_close_matches(word.partition("=")[0], options, n=1)
    hint = f"did you mean {near[0]}?" if near else f"see `{parser.prog} --help`"
    return CollforgeError(f"{parser.prog} does not take {word}; {hint}")


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raises KeyboardInterrupt, and ignores what often follows a Ctrl-C while results are being stored.

    A parent that ends, or a terminal that closes, sends SIGTERM or SIGHUP. A second Ctrl-C has effect.
    """
    for one in _ENDS:
        signal.signal(one, signal.SIG_IGN)
    signal.default_int_handler(number, frame)


def _fail(message: str) -> int:
    print(f"collforge: error: {message}", file=sys.stderr)
    return USER_ERROR


def _fix(error: OSError) -> str | None:
    """The fix for an operating system error that the user can fix; None for other errors."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free some space, or set COLLFORGE_HOME to a folder on another disk"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "get permission, or set COLLFORGE_HOME to a folder that you can write to"
    return None
