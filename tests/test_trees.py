"""Installed trees side by side: the list, the link `current`, uninstall, modules that know the MPI library."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Launch
from faults import databases
from support import SHARED_HOME
from test_install import SYSTEM, TOOLS, Tree, install, without_lua

import collforge as package
from collforge.db import Choice, Store
from collforge.db.published import Section, counts, render
from collforge.errors import CollforgeError
from collforge.home import full_path
from collforge.place import Place
from collforge.toolchain import build, libraries
from collforge.tuner.cli import doctor, main
from collforge.tuner.site import installed, publishing
from collforge.variant import Variant

MPI = "openmpi"
LIBRARY = "Open MPI v"
Site = Callable[[str], Path]
"""Copies the installed tree to a folder of this name in an empty folder of trees."""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = libraries.find(MPI)
    build.build(library, SHARED_HOME)
    variants = databases.manifest_variants(build.read_manifest())[:1]
    path = tmp_path_factory.mktemp("database") / "here.db"
    return databases.write(path, library, variants, system=SYSTEM)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory, database: Path, collforge: Launch) -> Tree:
    """Its module depends on the site's `openmpi`, of any version."""
    folder = tmp_path_factory.mktemp("trees")
    (folder / "usage").mkdir()
    words = ["--mpi", MPI, "--db", str(database), "--mpi-module", f"{MPI}={MPI}"]
    words += ["--usage", str(folder / "usage"), "--learn", str(folder / "usage"), "--current"]
    done = install(collforge, folder / "1", *words)
    assert done.returncode == 0, done.stderr
    assert f"module use {folder / 'current'}/share" in done.stdout
    with Store(database) as store:
        (noted,) = store.trees()
    assert (noted.prefix, noted.libraries) == (str(folder / "1"), MPI)
    assert noted.digest in done.stdout
    return Tree(folder / "1", folder / "1", done.stdout)


@pytest.fixture
def site(tree: Tree, tmp_path: Path) -> Site:
    return lambda name: shutil.copytree(tree.path, tmp_path / "site" / name)


def run(*words: object) -> int:
    return main.main([str(one) for one in words])


# ---- the list ------------------------------------------------------------------------------------


def test_trees_are_listed(site: Site, tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = site("1"), site("2")
    (first.parent / "precious").mkdir()
    installed.make_current(second)
    digest = hashlib.sha256(tree.winners.read_bytes()).hexdigest()
    for named in (first.parent, first, first.parent / "current"):
        assert run("install", "--list", named) == 0
        lines = capsys.readouterr().out.splitlines()
        heads = [line for line in lines if not line.startswith(" ")]
        assert [line.partition(":")[0] for line in heads] == [str(first), f"{second} (current)"]
        assert all(f"Collforge {package.__version__}, module version" in line for line in heads)
        assert sum(f": {SYSTEM}: 21 winners, 0 on the map" in line for line in lines) == 2
        assert sum(line == f"  sha256 of its winners: {digest}" for line in lines) == 2
        assert len(lines) == 6


def test_replaced_winners_are_listed_as_they_are(
    site: Site, database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The modules name the winners that came with the tree: jobs take no others."""
    prefix, more = site("1"), Path(shutil.copy(database, tmp_path / "more.db"))
    library = libraries.find(MPI)
    variants = databases.manifest_variants(build.read_manifest())[:1]
    databases.write(more, library, variants, ["4x2"], SYSTEM)
    assert run("publish", "--db", more, "--output", tmp_path / "new.txt") == 0
    (tmp_path / "new.txt").replace(prefix / installed.WINNERS)
    capsys.readouterr()
    facts = prefix.parent / "facts.json"
    assert run("install", "--list", prefix, "--json", facts) == 0
    (row,) = json.loads(facts.read_text())["rows"]
    assert row["prefix"] == str(prefix)
    assert row["libraries"]
    out = capsys.readouterr().out
    assert f": {SYSTEM}: 42 winners, 0 on the map\n" in out
    now = hashlib.sha256((prefix / installed.WINNERS).read_bytes()).hexdigest()
    assert f"sha256 of its winners: {now}\n" in out
    assert f"other winners ({installed.read(prefix).sha256}): jobs with these run native\n" in out
    cut = (prefix / installed.WINNERS).read_text()[:-10]
    (prefix / installed.WINNERS).unlink()
    (prefix / installed.WINNERS).write_text(cut)
    assert run("install", "--list", prefix) == 0
    assert "winners.txt: it is damaged" in capsys.readouterr().out


def test_points_of_the_map_are_counted_apart() -> None:
    one, two = (Choice(size, Variant("bcast"), 1.0, 1.0, 1.0, 3) for size in (1, 2))
    place = Place(SYSTEM, MPI, "Open MPI v4.1.4, Debian", "")
    text = render([Section(place, "", {"2x2": [one]}, {"~3x2": [one, two], "~4x2": [one]})])
    assert counts(text) == {(SYSTEM, place.mpi_version): (1, 3)}


def test_a_folder_without_trees_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        assert run("install", "--list", folder) == main.USER_ERROR
        assert capsys.readouterr().err.count("\n") == 1


# ---- current -------------------------------------------------------------------------------------


def test_the_link_is_made_and_moved(
    tree: Tree, site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (tree.path.parent / "current").readlink() == Path("1")
    first, second = site("1"), site("2")
    link = first.parent / "current"
    for prefix in (first, second, first):
        assert run("install", "--prefix", prefix, "--current") == 0
        assert capsys.readouterr().out == f"{link} points to {prefix}\n"
        assert link.readlink() == Path(prefix.name)
    assert len(list(first.parent.iterdir())) == 3
    # Options that say what to install are not passed over in silence.
    for words in (["--mpi", MPI], ["--db", first / "other.db"]):
        assert run("install", "--prefix", second, "--current", *words) == main.USER_ERROR
        assert "has a tree already" in capsys.readouterr().err
    assert link.readlink() == Path(first.name)


def test_the_link_is_never_missing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = site("1"), site("2")
    link = installed.make_current(first)
    seen = []

    def replace(new: Path, old: Path) -> None:
        seen.append((new.readlink(), old.readlink()))
        raise OSError(errno.EIO, "it fails")

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(OSError, match="it fails"):
        installed.make_current(second)
    assert seen == [(Path("2"), Path("1"))]
    assert sorted(one.name for one in link.parent.iterdir()) == ["1", "2", "current"]


def test_a_folder_named_current_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "current").mkdir()
    for name in ("1", "current"):
        assert run("install", "--prefix", tmp_path / name, "--current") == main.USER_ERROR
        assert "nothing but a link to a tree" in capsys.readouterr().err
    assert [one.name for one in tmp_path.iterdir()] == ["current"]


# ---- uninstall -----------------------------------------------------------------------------------


def test_only_what_install_wrote_is_removed(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    prefix, other = site("1"), site("2")
    (prefix / "share" / "precious").touch()
    assert run("uninstall", "--prefix", prefix) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert f"removed: {prefix} (Collforge {package.__version__}, " in line
    assert "kept 1 that install did not write, such as share/precious" in line
    assert [one for one in prefix.rglob("*") if not one.is_dir()] == [prefix / "share/precious"]
    count = len([one for one in other.rglob("*") if not one.is_dir()])
    assert run("uninstall", "--prefix", other) == 0
    assert capsys.readouterr().out.endswith(f", {count} files)\n")
    assert not other.exists()


def test_the_current_tree_stays(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = site("1"), site("2")
    link = installed.make_current(first)
    for named in (first, link):
        assert run("uninstall", "--prefix", named) == main.USER_ERROR
        assert f"{link} points to {first}: make another tree current" in capsys.readouterr().err
    assert installed.is_tree(first)
    installed.make_current(second)
    assert run("uninstall", "--prefix", first) == 0


def test_what_is_no_tree_stays(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = site("1")
    (prefix / "share" / "collforge" / "tree.json").unlink()
    assert run("uninstall", "--prefix", prefix) == main.USER_ERROR
    assert "is not a tree of `collforge install`" in capsys.readouterr().err
    assert (prefix / "lib").exists()


def test_files_outside_stay(site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a list that was changed, and behind a folder that was replaced by a link."""
    first, second = site("1"), site("2")
    (tmp_path / "precious").touch()
    record = first / installed.RECORD
    record.write_text(record.read_text().replace("include/collforge.h", "../../precious"))
    shutil.move(second / "lib", tmp_path / "lib")
    (second / "lib").symlink_to(tmp_path / "lib")
    for prefix in (first, second):
        assert run("uninstall", "--prefix", prefix) == main.USER_ERROR
        assert "names files outside" in capsys.readouterr().err
    assert (tmp_path / "precious").exists()
    assert (tmp_path / "lib" / MPI / "libcollforge.so").exists()


# ---- modules -------------------------------------------------------------------------------------


def mpi_modules(folder: Path, versions: dict[str, str]) -> str:
    """The line that makes a site's modules of `openmpi` known: version -> its mpi.h ('': it has none)."""
    for version, header in versions.items():
        prefix = folder / "mpi" / version
        (prefix / "bin").mkdir(parents=True)
        (prefix / "bin" / "mpicc").touch()
        (prefix / "include").mkdir()
        if header:
            (prefix / "include" / "mpi.h").write_text(header)
        module = folder / "modules" / MPI / version
        module.parent.mkdir(parents=True, exist_ok=True)
        module.write_text(f"#%Module1.0\nprepend-path PATH {prefix}/bin\n")
    return f"module use {folder}/modules\n"


def open_mpi(version: str) -> str:
    numbers = zip(("MAJOR", "MINOR", "RELEASE"), version.split("."))
    lines = [f"#define OMPI_{name}_VERSION {number}\n" for name, number in numbers]
    return "".join(["/* Open MPI */\n", *lines])


def own_version() -> str:
    return libraries.find(MPI).short_version[len(LIBRARY) :]


@pytest.mark.parametrize("tool", TOOLS)
def test_the_mpi_module_is_loaded_first(tree: Tree, tool: str, tmp_path: Path) -> None:
    """And unloaded with the module, unless the user loaded it."""
    tree = without_lua(tool, tree, tmp_path)
    script = mpi_modules(tmp_path, {"9": open_mpi(own_version()), "1": open_mpi("1.0.0")})
    script += f"PATH={tmp_path}/mpi/1/bin:$PATH\n"  # behind that of the module
    for step in ("load", "unload", f"load {MPI}", "load", "unload"):
        words = step if " " in step else f"{step} collforge/{MPI}"
        script += f"module {words}\necho loaded: $LOADEDMODULES\n"
        script += "echo usage: $COLLFORGE_USAGE $COLLFORGE_LEARN\n" if step == "load" else ""
    done = tree.shell(tool, script)
    ours = f"collforge/{MPI}/{package.__version__}"
    usage = "usage: " + " ".join(2 * [str(tree.old.parent / "usage")])
    both, alone = f"loaded: {MPI}/9:{ours}", f"loaded: {MPI}/9"
    expected = [both, usage, "loaded:", alone, both, usage, alone]
    assert done.stdout.splitlines() == expected, done.stderr
    assert "warning" not in done.stderr


@pytest.mark.parametrize("tool", TOOLS)
def test_another_version_in_the_path_is_told(tree: Tree, tool: str, tmp_path: Path) -> None:
    """One line at load alone; nothing where nothing can be told."""
    tree = without_lua(tool, tree, tmp_path)
    headers = {
        "older": open_mpi("1.0.0"),
        "mpich": '#define MPICH_VERSION "4.0.2"\n',
        "same": open_mpi(own_version()),
        "none": "",
        "odd": "#define MPICH_VERSION 3\n#define OMPI_MAJOR_VERSION 1\n",
    }
    script = mpi_modules(tmp_path, headers)
    for name in headers:
        script += f"echo {name}: >&2\nmodule load {MPI}/{name}\nmodule load collforge/{MPI}\n"
        script += f"echo $LOADEDMODULES\nmodule unload collforge/{MPI}\nmodule unload {MPI}\n"
    done = tree.shell(tool, script)
    assert done.stdout.count(f"collforge/{MPI}/") == len(headers), done.stderr
    library = libraries.find(MPI).short_version
    expected = []
    for name, found in {"older": "Open MPI v1.0.0", "mpich": "MPICH 4.0.2"}.items():
        place = tmp_path / "mpi" / name / "bin"
        line = f"collforge: warning: this module is for {library}, but first in PATH is {found} ({place})"
        expected.append(f"{line}, whose programs find no winners")
    said = [line for line in done.stderr.splitlines() if line]
    assert said == ["older:", expected[0], "mpich:", expected[1], "same:", "none:", "odd:"]


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (["--mpi-module", "openmpi"], "give NAME=MODULE"),
        (["--mpi-module", "openmpi=a;b"], "give NAME=MODULE"),
        (["--mpi-module", "opnmpi=openmpi/4"], "did you mean openmpi?"),
        (["--usage", "/nowhere/usage"], "there is no folder /nowhere/usage"),
    ],
)
def test_wrong_options_end_before_the_build(
    words: list[str],
    fix: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(build, "build", None)
    usual = ["install", "--prefix", tmp_path / "prefix", "--mpi", MPI]
    assert run(*usual, *words) == main.USER_ERROR
    assert fix in capsys.readouterr().err


# ---- what is printed -----------------------------------------------------------------------------


def test_paths_are_told_without_dots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b/c"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "a" / "link").symlink_to(tmp_path / "b" / "c")
    monkeypatch.chdir(tmp_path / "a")
    found = {"x.db": "a/x.db", "../out/x.db": "out/x.db", "..": "", "link/x.db": "a/link/x.db"}
    # The parent of what a link leads to, as the file system has it.
    found |= {"link/../x.db": "b/x.db", "../a/link": "a/link"}
    for text, path in found.items():
        assert full_path(text) == tmp_path / path


def test_a_full_disk_is_told_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CollforgeError, match=f"{tmp_path}/winners.txt .No space left") as error:
        publishing.write_file(tmp_path / "winners.txt", b"x", 0o444)
    assert "free some space" in str(error.value)
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv("COLLFORGE_HOME", str(tmp_path))
    monkeypatch.setattr(doctor.libraries, "find", full)
    (finding,) = [
        one for one in doctor.examine(tmp_path / "x.db") if one.subject == "MPI libraries"
    ]
    assert finding.found == f"{tmp_path}: {os.strerror(errno.ENOSPC)}"
    assert finding.failed
