"""`collforge install`: a tree that is moved and then used by `module load`, with nothing else."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import Installation, Launch, some
from faults import databases
from support import OPENMPI_OPTIONS, SHARED_HOME, TOP, execute, mpi4py_variables

import collforge as package
from collforge.db import Choice
from collforge.db.published import Section, render
from collforge.generator import manifest
from collforge.place import Place
from collforge.toolchain import build, libraries
from collforge.tuner.cli import main
from collforge.tuner.site import man_pages

SYSTEM = "here"
LIBRARIES = ("openmpi", "mpich")
# The commands behind the shell function `module`, below .venv/modules. Lmod reads the Lua file if there is one.
LMOD = "lmod/usr/share/lmod/lmod/libexec/lmod"
TOOLS = {
    "lmod": LMOD,
    "lmod-tcl": LMOD,
    "modules": "environment-modules/usr/lib/*/modulecmd.tcl",
}
SECONDS = 120

C = r"""
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    double mine[1000], sum[1000];
    int rank = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 1000; i++)
        mine[i] = rank + 1;
    MPI_Allreduce(mine, sum, 1000, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0)
        printf("sum %g\n", sum[999]);
    return 0;
}
"""
FORTRAN = """
program sums
  use mpi
  double precision :: mine(1000), total(1000)
  integer :: rank, error
  call mpi_init(error)
  call mpi_comm_rank(mpi_comm_world, rank, error)
  mine = rank + 1
  call mpi_allreduce(mine, total, 1000, mpi_double_precision, mpi_sum, mpi_comm_world, error)
  call mpi_finalize(error)
  if (rank == 0) print '(a,f3.0)', 'sum ', total(1000)
end program
"""
PYTHON = """
import numpy
from mpi4py import MPI
mine, total = numpy.full(1000, MPI.COMM_WORLD.rank + 1.0), numpy.empty(1000)
MPI.COMM_WORLD.Allreduce(mine, total)
if MPI.COMM_WORLD.rank == 0:
    print(f"sum {total[999]:g}")
"""


@dataclass(frozen=True)
class Tree:
    """An installed tree at `path`, where it was moved from `old`."""

    path: Path
    old: Path
    output: str
    """Of `collforge install`."""

    @property
    def winners(self) -> Path:
        return self.path / "share" / "collforge" / "winners.txt"

    def library(self, mpi: str) -> Path:
        return self.path / "lib" / mpi / "libcollforge.so"

    def shell(
        self, tool: str, script: str, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs a script of bash in which `module` is that tool's, and finds the tree's modules."""
        found = [str(path) for path in (TOP / ".venv" / "modules").glob(TOOLS[tool])]
        if not found and shutil.which("apt-get") is None:
            pytest.skip("Lmod and Environment Modules are taken from Debian's packages")
        assert found, "run `make prefixes`"
        function = f'module() {{ eval "$({found[0]} bash "$@")"; }}'
        lines = [function, f"module use {self.path}/share/modulefiles", script]
        names = ("MODULEPATH", "LOADEDMODULES", "_LMFILES_", "MANPATH", "PKG_CONFIG_PATH")
        unset = [f"--unset={name}" for name in names]
        values = [f"{name}={value}" for name, value in {"HOME": "/nowhere", **(env or {})}.items()]
        words = ["env", *unset, *values, "bash", "--norc", "-c", "\n".join(lines)]
        return execute(words, timeout=SECONDS)

    def run(
        self, tool: str, mpi: str, words: list[str], **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Launches a program on two pretended nodes of two ranks with the module of its MPI library."""
        options = OPENMPI_OPTIONS if mpi == "openmpi" else ""
        launch = f"mpirun.{mpi} {options} -n 4 {shlex.join(words)}"
        settings = {"COLLFORGE_NODE_MAP": "2", "COLLFORGE_VERBOSE": "2", **env}
        return self.shell(tool, f"module load collforge/{mpi}\nexec {launch}", settings)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Winners of every variant for both libraries on two nodes of two ranks."""
    path = tmp_path_factory.mktemp("database") / "here.db"
    for name in LIBRARIES:
        library = libraries.find(name)
        build.build(library, SHARED_HOME)
        variants = databases.manifest_variants(build.read_manifest())
        databases.write(path, library, variants, system=SYSTEM)
    return path


def install(
    collforge: Launch, prefix: Path, *words: str, **env: str
) -> subprocess.CompletedProcess[str]:
    return collforge("install", "--prefix", str(prefix), *words, timeout=600, **env)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory, database: Path, collforge: Launch) -> Tree:
    folder = tmp_path_factory.mktemp("install")
    old, new = folder / "the_old_prefix", folder / "new"
    words = ["--mpi", ",".join(LIBRARIES), "--db", str(database), "--system", SYSTEM]
    done = install(collforge, old, *words)
    assert done.returncode == 0, done.stderr
    old.rename(new)
    return Tree(new, old, done.stdout)


@pytest.fixture
def copy(tree: Tree, tmp_path: Path) -> Tree:
    """A second move, for tests that change the tree."""
    return Tree(shutil.copytree(tree.path, tmp_path / "copy"), tree.old, tree.output)


def without_lua(tool: str, tree: Tree, folder: Path) -> Tree:
    """The tree itself, or for `lmod-tcl` a copy without Lua files."""
    if tool != "lmod-tcl":
        return tree
    ignored = shutil.ignore_patterns("*.lua")
    return Tree(shutil.copytree(tree.path, folder / "tcl", ignore=ignored), tree.old, tree.output)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], list[str]]:
    """(MPI library, language) -> the words of a program that prints a sum over four ranks."""
    folder = tmp_path_factory.mktemp("programs")
    sources = {"c": ("sum.c", C), "fortran": ("sum.f90", FORTRAN), "python": ("sum.py", PYTHON)}
    for name, text in sources.values():
        (folder / name).write_text(text)
    found = {}
    for mpi in LIBRARIES:
        for language, wrapper in (("c", "mpicc"), ("fortran", "mpif90")):
            program = folder / f"{mpi}-{language}"
            source = str(folder / sources[language][0])
            words = [f"{wrapper}.{mpi}", source, "-o", str(program)]
            words += ["-fallow-argument-mismatch"] * (language == "fortran")
            assert execute(words).returncode == 0
            found[mpi, language] = [str(program)]
        found[mpi, "python"] = [sys.executable, str(folder / "sum.py")]
    return found


def checksum(tree: Tree) -> str:
    return hashlib.sha256(tree.winners.read_bytes()).hexdigest()


# ---- the tree ------------------------------------------------------------------------------------


def test_nothing_in_the_tree_names_a_place(tree: Tree, database: Path) -> None:
    files = [path for path in tree.path.rglob("*") if path.is_file()]
    assert not [path for path in files if path.is_symlink()]
    for path in files:
        data = path.read_bytes()
        assert tree.old.name.encode() not in data, path
        if path.suffix != ".so":  # its debug information names the sources
            for place in (TOP, SHARED_HOME, database.parent):
                # Manual pages wrap their lines, at a hyphen in a path, too.
                assert str(place).encode() not in b"".join(data.split()), path


def test_what_is_in_the_tree(tree: Tree) -> None:
    files = {str(path.relative_to(tree.path)) for path in tree.path.rglob("*") if path.is_file()}
    of_each = {
        f"{folder}{mpi}{ending}"
        for mpi in LIBRARIES
        for folder, ending in (
            ("lib/", "/libcollforge.so"),
            ("lib/pkgconfig/collforge-", ".pc"),
            ("share/modulefiles/collforge/", f"/{package.__version__}"),
            ("share/modulefiles/collforge/", f"/{package.__version__}.lua"),
        )
    }
    headers = {
        f"include/{path.name}" for path in (TOP / "runtime" / "include").iterdir() if path.is_file()
    }
    share = {"collforge/README", "collforge/tree.json"}
    share |= {"collforge/winners.txt", "collforge/winners.txt.sha256"}
    share |= {"man/man1/collforge.1", "man/man7/collforge.7"}
    expected = of_each | headers | {f"share/{name}" for name in share}
    assert files == expected | {"include/collforge_hybrid.f90"}
    assert (tree.winners.stat().st_mode & 0o777) == 0o444
    for path in (tree.path, *tree.path.rglob("*")):
        assert path.stat().st_mode & 0o444 == 0o444, f"{path}: all may read it"
    assert f"winners: {checksum(tree)}\n" in tree.output


def test_the_library_needs_nothing_but_mpi(tree: Tree) -> None:
    for mpi in LIBRARIES:
        out = execute(["readelf", "-d", str(tree.library(mpi))]).stdout
        needed = re.findall(r"NEEDED.*\[(.*?)\.so", out)
        # libgcc_s, which the C library itself loads, tells what is on the stack (comm/being_freed.c).
        assert {name for name in needed if not name.startswith(("libmpi", "ld-"))} == {
            "libc",
            "libgcc_s",
        }


def test_the_manual_has_every_command_and_variable(tree: Tree) -> None:
    commands = (tree.path / "share" / "man" / "man1" / "collforge.1").read_text()
    _, names = main.build_parser()
    for name in (*names, "cluster run", "profile show"):
        escaped = name.replace("-", r"\-")
        assert f"\n.SS collforge {escaped}\n" in commands
    assert "$COLLFORGE_HOME/collforge.db" in commands
    environment = (tree.path / "share" / "man" / "man7" / "collforge.7").read_text()
    listed = re.findall(r"^\.B (COLLFORGE_\w+)=", environment, re.M)
    using = (TOP / "docs" / "using.md").read_text()
    assert set(listed) == set(re.findall(r"^\| `(COLLFORGE_\w+)", using, re.M))
    assert all(meaning and form for _, form, meaning in man_pages.variables())
    for page in (commands, environment):
        assert not re.search(r"^[.'](?!(TH|SH|SS|TP|B|I|BR|nf|fi)\b)", page, re.M)


# ---- modules -------------------------------------------------------------------------------------

SHOW = r"""
for name in LD_PRELOAD COLLFORGE_DB COLLFORGE_DB_SHA256 PKG_CONFIG_PATH
do printf '%s=%s\n' $name "${!name}"; done
"""


def shown(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    return dict(re.findall(r"^(\w+)=(.*)$", done.stdout, re.M))


@pytest.mark.either
@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("mpi", LIBRARIES)
def test_a_module_sets_paths_of_where_the_tree_is(
    tree: Tree, tool: str, mpi: str, tmp_path: Path
) -> None:
    tree = without_lua(tool, tree, tmp_path)
    script = f"module load collforge/{mpi}\n{SHOW}module unload collforge/{mpi}\necho ---\n{SHOW}"
    done = tree.shell(tool, script, {"LD_PRELOAD": ""})
    loaded, _, unloaded = done.stdout.partition("---\n")
    assert dict(re.findall(r"^(\w+)=(.*)$", loaded, re.M)) == {
        "LD_PRELOAD": str(tree.library(mpi)),
        "COLLFORGE_DB": str(tree.winners),
        "COLLFORGE_DB_SHA256": checksum(tree),
        "PKG_CONFIG_PATH": str(tree.path / "lib" / "pkgconfig"),
    }
    assert not any(value for _, value in re.findall(r"^(\w+)=(.*)$", unloaded, re.M))


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tree_behind_a_link_is_found_where_it_is(tree: Tree, tool: str, tmp_path: Path) -> None:
    """So that jobs go on with the tree that they began with when the link is set to the next one."""
    tree = without_lua(tool, tree, tmp_path)
    (tmp_path / "current").symlink_to(tree.path)
    linked = Tree(tmp_path / "current", tree.old, tree.output)
    done = linked.shell(tool, f"module load collforge/openmpi\n{SHOW}")
    assert shown(done)["COLLFORGE_DB"] == str(tree.winners)
    assert shown(done)["LD_PRELOAD"] == str(tree.library("openmpi"))


@pytest.mark.wide
@pytest.mark.parametrize("tool", TOOLS)
def test_a_folder_of_modules_may_be_a_link(tree: Tree, tool: str, tmp_path: Path) -> None:
    """A site may keep all its modules in one folder."""
    tree = without_lua(tool, tree, tmp_path)
    site = tmp_path / "site"
    site.mkdir()
    (site / "collforge").symlink_to(tree.path / "share" / "modulefiles" / "collforge")
    done = tree.shell(tool, f"module use {site}\nmodule load collforge/openmpi\n{SHOW}")
    assert shown(done)["LD_PRELOAD"] == str(tree.library("openmpi"))


@pytest.mark.parametrize("tool", TOOLS)
def test_two_modules_are_not_loaded_at_once(tree: Tree, tool: str, tmp_path: Path) -> None:
    """Lmod replaces the first; Environment Modules refuses the second."""
    tree = without_lua(tool, tree, tmp_path)
    script = f"module load collforge/openmpi\nmodule load collforge/mpich\n{SHOW}"
    done = tree.shell(tool, script)
    left = "openmpi" if tool == "modules" else "mpich"
    assert shown(done)["LD_PRELOAD"] == str(tree.library(left))
    words = "Conflicting collforge" if tool == "modules" else "replacing"
    assert words in done.stderr


@pytest.mark.either
@pytest.mark.parametrize(
    ("tool", "language"),
    some([(tool, one) for one in ("c", "fortran", "python") for tool in ("modules", "lmod")]),
)
@pytest.mark.parametrize("mpi", LIBRARIES)
def test_a_program_runs_winners(
    tree: Tree,
    tool: str,
    mpi: str,
    language: str,
    programs: dict[tuple[str, str], list[str]],
) -> None:
    env = mpi4py_variables(mpi) if language == "python" else {}
    done = tree.run(tool, mpi, programs[mpi, language], **env)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^sum .*$", done.stdout, re.M) in (["sum 10"], ["sum 10."])
    (winners,) = re.findall(r"collforge: version \S+, (\d+) winners", done.stderr)
    assert int(winners) > 100
    assert re.search(r"collforge: allreduce@2x2, .* bytes: (?!native)\w+", done.stderr)


@pytest.mark.either
@pytest.mark.parametrize("mpi", LIBRARIES)
def test_a_changed_file_is_refused_and_the_job_completes(
    copy: Tree, mpi: str, programs: dict[tuple[str, str], list[str]]
) -> None:
    tool = "modules"
    copy.winners.chmod(0o644)
    copy.winners.write_text(copy.winners.read_text().replace("\n1024\t", "\n1023\t"))
    done = copy.run(tool, mpi, programs[mpi, "c"], COLLFORGE_VERBOSE="0")
    assert (done.returncode, done.stdout) == (0, "sum 10\n")
    (line,) = [line for line in done.stderr.splitlines() if "collforge" in line]
    assert re.search(r"warning: COLLFORGE_DB=\S+ is ignored: its SHA-256 is ", line)


@pytest.mark.either
@pytest.mark.parametrize("mpi", LIBRARIES)
def test_a_program_is_linked_by_pkg_config(tree: Tree, mpi: str, tmp_path: Path) -> None:
    """And compiles the Fortran module from its source."""
    (tmp_path / "version.c").write_text(
        '#include "collforge.h"\n#include <stdio.h>\nint main(void) { return puts(collforge_version()) < 0; }\n'
    )
    found = f"env PKG_CONFIG_PATH={tree.path}/lib/pkgconfig pkg-config"
    name = f"collforge-{mpi}"
    script = f"""
        set -e
        mpicc.{mpi} version.c -o version $({found} --cflags --libs {name})
        mpif90.{mpi} -std=f2008 -c $({found} --variable=fortran_module {name})
        ./version"""
    done = execute(["bash", "-c", script], cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{package.__version__}\n"), done.stderr
    assert (tmp_path / "collforge_hybrid.mod").exists()


# ---- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (["--prefix", "/tmp/a b"], "another --prefix"),
        (["--module-version", "../x"], "letters, digits"),
        (["--mpi", "opnmpi"], "did you mean openmpi?"),
        (["--db", "/tmp/nowhere.db"], "collforge tune"),
        (["--system", "nowhere"], "known: here"),
    ],
)
def test_what_cannot_be_installed(
    words: list[str],
    fix: str,
    database: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    prefix = tmp_path / "prefix"
    usual = ["--prefix", str(prefix), "--mpi", "openmpi", "--db", str(database)]
    try:
        assert main.main(["install", *usual, *words]) == main.USER_ERROR
    except SystemExit as error:
        assert error.code == main.USER_ERROR
    assert fix in capsys.readouterr().err
    assert not prefix.exists()


def test_a_second_tree_in_the_same_place_is_refused(tree: Tree, collforge: Launch) -> None:
    done = install(collforge, tree.path, "--mpi", "openmpi")
    assert done.returncode == main.USER_ERROR
    assert "install the next one beside it" in done.stderr


def test_a_folder_with_other_files_is_refused(tmp_path: Path, collforge: Launch) -> None:
    (tmp_path / "precious").touch()
    done = install(collforge, tmp_path, "--mpi", "openmpi")
    assert done.returncode == main.USER_ERROR
    assert "is not empty" in done.stderr


def test_the_winners_of_a_tree_are_not_overwritten(
    tree: Tree, database: Path, collforge: Launch
) -> None:
    before = tree.winners.read_bytes()
    done = collforge("publish", "--db", str(database), "--output", str(tree.winners))
    assert done.returncode == main.USER_ERROR
    assert "install a new tree" in done.stderr
    assert tree.winners.read_bytes() == before


def test_winners_of_other_generated_code_are_refused(
    database: Path, tmp_path: Path, collforge: Launch
) -> None:
    """The library would ignore them all."""
    other = Path(shutil.copy(database, tmp_path / "other.db"))
    databases.rewrite(other, "UPDATE variant SET fingerprint = 'f' WHERE id = 2")
    words = ["--mpi", "openmpi", "--db", str(other)]
    done = install(collforge, tmp_path / "prefix", *words)
    assert done.returncode == main.USER_ERROR
    assert "other generated code" in done.stderr
    assert not (tmp_path / "prefix").exists()


@pytest.mark.wide
def test_a_tree_without_a_database_has_no_winners(tmp_path: Path, collforge: Launch) -> None:
    """The module is then one to link with, and to force variants."""
    prefix = tmp_path / "prefix"
    words = ["--mpi", "mpich", "--module-version", "2026.11"]
    done = install(collforge, prefix, *words, COLLFORGE_DB=str(tmp_path / "none.db"))
    assert done.returncode == 0, done.stderr
    assert "no winners" in done.stdout
    assert not (prefix / "share" / "collforge" / "winners.txt").exists()
    for ending in ("", ".lua"):
        text = (prefix / "share/modulefiles/collforge/mpich" / f"2026.11{ending}").read_text()
        assert "libcollforge.so" in text
        assert not re.search(r"setenv.*COLLFORGE_DB", text)


@pytest.mark.wide
def test_a_module_sets_what_winners_of_threads_need(tmp_path: Path, collforge: Launch) -> None:
    database, prefix = tmp_path / "threads.db", tmp_path / "prefix"
    variants = databases.manifest_variants(build.current_manifest())[:1]
    databases.write(database, libraries.find("openmpi"), variants, ["2x1", "2x1x2"], SYSTEM)
    done = install(collforge, prefix, "--mpi", "openmpi", "--db", str(database))
    assert done.returncode == 0, done.stderr
    folder = prefix / "share" / "modulefiles" / "collforge" / "openmpi"
    assert "setenv COLLFORGE_THREAD_MULTIPLE {1}\n" in (folder / package.__version__).read_text()
    lua = (folder / f"{package.__version__}.lua").read_text()
    assert 'setenv("COLLFORGE_THREAD_MULTIPLE", "1")\n' in lua


# ---- size ----------------------------------------------------------------------------------------

RESIDENT = r"""
#include <mpi.h>
#include <stdio.h>
#include <string.h>
static long status(const char *name) {
    char line[256];
    long found = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            (void)sscanf(line + strlen(name), ": %ld", &found);
    if (file != NULL)
        (void)fclose(file);
    return found;
}
int main(int argc, char **argv) {
    int rank = 0;
    MPI_Init(&argc, &argv);
    const long resident = status("VmHWM");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    printf("rank %d: %ld\n", rank, resident);
    return MPI_Finalize();
}
"""


def many_winners(built: Installation, count: int) -> str:
    """The text of a published file of so many winners, all variants in turn, on ever more layouts."""
    made = manifest.load(built.home / "generated" / "manifest.json")
    variants = [one for one in databases.manifest_variants(made) if one.family != "thread_split"]
    layouts: dict[str, list[Choice]] = {}
    names = list(dict.fromkeys(one.collective for one in variants))
    for number in range(count):
        name = names[number // 20 % len(names)]
        own = [one for one in variants if one.collective == name]
        layout = f"{2 + number // (20 * len(names))}x2"
        choice = Choice(1 << number % 20, own[number % len(own)], 1.5, 1.4, 1.6, 3)
        layouts.setdefault(layout, []).append(choice)
    place = Place(SYSTEM, built.library.name, built.library.first_line, "")
    return render([Section(place, "", layouts, {})])


@pytest.mark.either
def test_ten_thousand_winners_are_small(
    built: Installation, launch: Launch, tmp_path: Path
) -> None:
    """In the file, and in each process, at most."""
    source, program = tmp_path / "resident.c", tmp_path / "resident"
    source.write_text(RESIDENT)
    command = [str(built.library.mpicc), "-D_GNU_SOURCE", str(source), "-o", str(program)]
    assert execute(command).returncode == 0
    resident: dict[int, dict[str, int]] = {20: {}, 10_000: {}}
    for count in [20, 10_000] * 3:
        path = tmp_path / f"{count}.txt"
        path.write_text(many_winners(built, count))
        env = {"LD_PRELOAD": str(built.built.library_path), "COLLFORGE_DB": str(path)}
        env |= {"COLLFORGE_VERBOSE": "1", "COLLFORGE_NODE_MAP": "2"}
        done = launch(built.library.name, 4, [str(program)], env)
        assert f", {count} winners" in done.stderr
        for rank, kib in re.findall(r"rank (\d): (\d+)", done.stdout):
            # What the MPI library itself takes varies by some 300 KiB from launch to launch.
            resident[count][rank] = min(int(kib), resident[count].get(rank, int(kib)))
    assert path.stat().st_size < 1 << 20
    assert len(resident[20]) == 4
    added = {rank: resident[10_000][rank] - kib for rank, kib in resident[20].items()}
    assert all(kib < 1024 for kib in added.values()), added
