"""Checks README, CONTRIBUTING and docs/: commands, paths, links, variables.

The lines of a fenced `sh` block are run if `<!-- run -->` is before the block. Other commands are checked
without running them: those of Collforge by its argument parser, those of make by its targets, those of Python
by path and options. `<!-- not run: REASON -->` exempts all other commands, but not those of Collforge and make.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest
import results
from support import SHARED_HOME, TOP, execute

from collforge.errors import CollforgeError
from collforge.papers.programs import kernels
from collforge.toolchain import build, libraries
from collforge.tuner import probes
from collforge.tuner.cli import main, registry

PAGES = [TOP / "README.md", TOP / "CONTRIBUTING.md", TOP / "deploy" / "README.md"]
PAGES += sorted((TOP / "docs").rglob("*.md"))
EXAMPLES = sorted([*(TOP / "examples").rglob("*.c"), *(TOP / "papers" / "kernels").glob("*.c")])
FOLDERS = "collforge|db|deploy|docs|examples|generator|papers|reframe_checks|runtime|templates|tests|toolchain"
FOLDERS += "|service|tuner"
PYTEST_OPTIONS = {"-s", "-x", "-q", "-m", "-k"}
SECONDS = 300


@dataclass(frozen=True)
class Block:
    """A fenced block of shell lines, continued lines joined."""

    page: Path
    number: int
    mark: str
    """The comment before the block: "", ``run`` or ``not run: REASON``."""
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page.relative_to(TOP)}:{self.number}"


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    pattern = r"(?:^ *<!-- (run|not run: [^\n]+) -->\n)?^( *)```sh\n(.*?)^ *```$"
    for found in re.finditer(pattern, text, re.DOTALL | re.MULTILINE):
        joined = found[3].replace("\\\n", " ")
        lines = tuple(line.strip() for line in joined.splitlines() if line.strip())
        yield Block(page, text.count("\n", 0, found.start()) + 1, found[1] or "", lines)


BLOCKS = [block for page in PAGES for block in blocks(page)]


def commands(line: str) -> Iterator[list[str]]:
    """The commands of a shell line, without redirections and assignments, inner `$(...)` included."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();&|<>")
    lexer.whitespace_split = True
    words: list[str] = []
    redirected = False
    for word in [*lexer, ";"]:
        if word[0] in "();&|":
            if words:
                yield words
            words = []
        elif word[0] in "<>":
            redirected = True
        elif redirected:
            redirected = False
        elif words or not re.match(r"\w+=", word):
            words.append(word)
        for inner in re.findall(r"\$\(([^()]*)\)", word):
            yield from commands(inner)


def is_known(words: list[str]) -> bool:
    """Whether a command is of a kind that can be checked; raises if it is wrong."""
    words = [word for word in words if word != "$"]
    name, rest = words[0], words[1:]
    if Path(name).name == "collforge":
        parser, names = main.build_parser()
        assert rest[0] in names, f"no command {rest[0]}"
        with mock.patch.object(Path, "is_file", return_value=True):  # files of the reader's
            parser.parse_args(rest)
    elif name == "make":
        phony = re.search(r"^\.PHONY: (.*)$", (TOP / "Makefile").read_text(), re.MULTILINE)
        targets = [word for word in rest if "=" not in word]
        assert phony and set(targets) <= set(phony[1].split()), f"no target: {rest}"
    elif name == ".venv/bin/python" and rest[:2] == ["-m", "pytest"]:
        assert {word for word in rest[2:] if word.startswith("-")} <= PYTEST_OPTIONS
        assert all((TOP / word).exists() for word in rest if word.startswith("tests/"))
    elif name == ".venv/bin/python":
        text = (TOP / rest[0]).read_text()
        assert all(f'"{word}"' in text for word in rest[1:] if word.startswith("--"))
    elif name == ".":
        assert rest[0] == ".venv/bin/activate" or rest[0].endswith(".sh")
    elif name == ".ci/run":
        assert (TOP / name).exists()
    else:
        return name == "export"
    return True


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_every_command_is_right_or_marked(
    block: Block, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(TOP)
    for line in block.lines:
        for words in commands(line):
            try:
                known = is_known(words)
            except SystemExit:
                raise AssertionError(f"{line}: {capsys.readouterr().err}") from None
            assert known or block.mark, f"{line}: run it, or mark it `<!-- not run: REASON -->`"


@pytest.mark.parametrize(
    "line",
    [
        "collforge bench --mpi openmpi --no-such-option",
        'eval "$(collforge env)"',
        "(. ./x.sh && collforge nothing)",
        "make nothing",
        ".venv/bin/python -m pytest tests/nothing.py",
        "x=1 collforge tune --per rank > /dev/null",
    ],
)
def test_a_wrong_command_is_found(line: str) -> None:
    with pytest.raises((AssertionError, SystemExit, CollforgeError)):
        assert all(is_known(words) for words in commands(line))


@pytest.fixture(scope="module")
def _built() -> None:
    """Builds for the library that the docs name."""
    build.build(libraries.find("openmpi"), SHARED_HOME)


@pytest.fixture
def checkout(_built: None, tmp_path: Path) -> Path:
    """A folder that looks like a checkout in which the docs' build commands were run."""
    for name in (".venv", "examples", "papers", "runtime"):
        (tmp_path / name).symlink_to(TOP / name)
    (tmp_path / "build").symlink_to(SHARED_HOME)
    return tmp_path


def run_lines(lines: str, folder: Path) -> None:
    done = execute(
        [
            "env",
            f"PWD={folder}",
            "bash",
            "-euo",
            "pipefail",
            "-c",
            f'PATH="$PWD/.venv/bin:$PATH"\n{lines}',
        ],
        timeout=SECONDS,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.emulated
@pytest.mark.parametrize("block", [one for one in BLOCKS if one.mark == "run"], ids=str)
def test_a_block_runs(block: Block, checkout: Path) -> None:
    run_lines("\n".join(block.lines), checkout)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_by_its_first_line(example: Path, checkout: Path) -> None:
    first = example.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("/* mpicc.openmpi ")
    run_lines(first[3:], checkout)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_commands_of_an_example_are_right(example: Path) -> None:
    head = example.read_text(encoding="utf-8").partition("*/")[0]
    for line in re.findall(r"^ \*   (.*(?:collforge|tuned\.sh) .*)$", head, re.MULTILINE):
        assert all(is_known(words) for words in commands(line)), line


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_command_in_a_sentence_has_the_options(page: Path) -> None:
    """Such commands are often incomplete, so only names and options are checked."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for found in re.findall(r"`(?:\S+=\S+ )?(?:\.venv/bin/)?collforge ([^`]+)`", text):
        parser, _ = main.build_parser()
        words = shlex.split(found.replace("\\|", "|").partition(" -- ")[0])
        for word in words:
            (subparsers,) = [a for a in parser._actions if a.choices and a.nargs == "A..."] or [
                None
            ]
            if word.startswith("-"):
                assert word in parser._option_string_actions, found
            elif subparsers is not None and word.islower():
                assert word in subparsers.choices, found
                parser = subparsers.choices[word]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        other = (page.parent / name).resolve() if name else page
        assert other.exists(), target
        headings = re.findall(r"^#+ (.*)$", other.read_text(), re.MULTILINE) if anchor else []
        anchors = {
            re.sub(r"[^\w -]", "", one).strip().lower().replace(" ", "-") for one in headings
        }
        assert not anchor or anchor in anchors, target


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_paths_exist(page: Path) -> None:
    for path in re.findall(rf"`((?:{FOLDERS})/[\w./*-]*)`", page.read_text()):
        assert list(TOP.glob(path.rstrip("/"))), path


def test_the_readme_is_short() -> None:
    assert len((TOP / "README.md").read_text().splitlines()) <= 120


def test_every_command_is_in_the_table() -> None:
    table = (TOP / "docs" / "using.md").read_text().partition("\n## Commands\n")[2]
    _, names = main.build_parser()
    assert [name for name in names if f"`collforge {name}" not in table] == []


def test_every_probe_is_in_the_table() -> None:
    table = (TOP / "docs" / "design" / "measuring.md").read_text().partition("\n## Probes\n")[2]
    assert [name for name in registry.find(probes, "run") if f"| `{name}` |" not in table] == []


def test_the_kernels_have_as_many_lines_as_said() -> None:
    text = (TOP / "docs" / "papers.md").read_text()
    for kernel in kernels.KERNELS:
        mpi, hybrid = (kernels.source(kernel, version) for version in ("mpi", "hybrid"))
        lengths = [len(kernels.code_lines(path)) for path in (mpi, hybrid)]
        row = " | ".join(map(str, [*lengths, kernels.added_lines(mpi, hybrid)]))
        assert f"| `{kernel}` | {row} |" in text


def test_the_paper_s_program_has_as_many_lines_as_said() -> None:
    text = " ".join((TOP / "docs" / "application.md").read_text().split())
    names = ("hybrid_allgather_plain", "hybrid_allgather")
    plain, ours = (len(kernels.code_lines(TOP / "examples" / f"{name}.c")) for name in names)
    assert f"{plain} lines of code instead of {ours}," in text


def test_make_help_names_every_target() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", (TOP / "Makefile").read_text(), re.MULTILINE)
    shown = execute(["make", "-C", str(TOP), "--no-print-directory", "help"]).stdout
    listed = {line.split()[0] for line in shown.splitlines()}
    assert phony and set(phony[1].split()) == listed


def test_the_tables_of_results_are_those_of_the_files() -> None:
    """`make results` renders them; each file is in some table."""
    shown = set()
    for page in results.PAGES:
        text = page.read_text()
        assert results.render(page) == text
        shown |= {name for found in results.TABLE.finditer(text) for name in found[2].split()}
    stored = results.FOLDER.rglob("*.json")
    assert shown == {str(path.relative_to(results.FOLDER)) for path in stored} and shown
