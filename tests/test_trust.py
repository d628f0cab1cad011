"""What programs, tools and launchers may do: one rank alone, before MPI_Init, and with what is theirs."""

from __future__ import annotations

import csv
import itertools
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
import tools
from conftest import Installation, Launch, some
from hazards.build import compiled, hybrid_program, pass_cases
from preloaded import tuned
from support import LIBRARIES, OPENMPI_OPTIONS, compile_once, execute, launch_groups

TIME = 60
either = pytest.mark.either
FULL_LANE = {"COLLFORGE_NODE_MAP": "2", "COLLFORGE_FORCE": "*=full_lane"}
HAZARDS = Path(__file__).resolve().parent / "hazards"


def preloaded(built: Installation, *behind: Path, before: Sequence[Path] = ()) -> dict[str, str]:
    files = [*before, built.built.library_path, *behind]
    return {**FULL_LANE, "COLLFORGE_VERBOSE": "2", "LD_PRELOAD": ":".join(map(str, files))}


def shared(built: Installation, name: str, *options: str) -> Path:
    return compiled(built, name, "-shared", "-fPIC", *options)


def passes(done: subprocess.CompletedProcess[str]) -> str:
    """The job's standard error."""
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["passed"]), done.stderr
    return done.stderr


# ---- one rank is not as the others ---------------------------------------------------------------


@pytest.mark.parametrize("where", ["before", "behind"])
@pytest.mark.parametrize("one", [0, 2])
def test_a_tool_on_one_rank(built: Installation, one: int, where: str) -> None:
    """It defines some collectives: where it stands before the library, these are native on all ranks."""
    tool = shared(built, "tool_some")
    starts = {"COLLFORGE_NONBLOCKING": "1", "COLLFORGE_PROGRESS": "thread"}
    alone = preloaded(built) | starts
    other = preloaded(built, before=[tool]) if where == "before" else preloaded(built, tool)
    groups = [(1, other | starts if rank == one else alone) for rank in range(4)]
    command = [str(compiled(built, "calls")), "5", "1000", "starts"]
    done = launch_groups(built.library.name, groups, command, timeout=TIME)
    log = passes(done)
    hidden = 5 if where == "before" else 0
    assert f"variants served {10 - hidden} of {10 - hidden} nonblocking" in log + done.stdout
    served = tuned(log, "full_lane")
    assert "bcast" in served
    assert ("allreduce" in served) == (where == "behind")
    said = [line for line in log.splitlines() if "passes this library by" in line]
    assert len(said) == (where == "before")
    assert not said or (f"on rank {one} " in said[0] and str(tool) in said[0])


@pytest.mark.slow
@pytest.mark.parametrize("where", ["before", "behind"])
def test_eztrace(mpi: str, where: str, tmp_path: Path) -> None:
    """A real tool, which defines all collectives and calls some in MPI_Init."""
    tool = tools.Tool(mpi, Path(tools.EZTRACE.format(mpi)), {})
    passed, served = tool.run(where, {*range(tools.RANKS)}, tmp_path)
    assert passed
    assert ("allreduce" in served) == (where == "behind")


def test_two_executables(built: Installation) -> None:
    """A tool is linked into one of them."""
    plain = str(compiled(built, "calls"))
    other = str(compiled(built, "calls", "-rdynamic", str(HAZARDS / "tool_some.c")))
    env = preloaded(built)
    words = ["-n", "2", "env", *(f"{name}={value}" for name, value in env.items()), other]
    done = launch_groups(built.library.name, [(2, env)], [plain, ":", *words], timeout=TIME)
    assert tuned(passes(done), "full_lane") >= {"bcast"}


def fortran_program(built: Installation, name: str) -> Path:
    source = HAZARDS / f"{name}.f90"
    return compile_once(name, [f"mpif90.{built.library.name}", source], source)


@pytest.mark.parametrize("options", [(), ("-DBY_C",)])
@pytest.mark.parametrize("where", ["before", "behind"])
def test_a_fortran_tool_on_one_rank(
    built: Installation, where: str, options: tuple[str, ...]
) -> None:
    """With MPICH the library's Fortran routines are behind every tool's."""
    tool = shared(built, "tool_fortran", *options)
    one = preloaded(built, before=[tool]) if where == "before" else preloaded(built, tool)
    groups = [(1, preloaded(built)), (1, one), (2, preloaded(built))]
    words = [str(fortran_program(built, "broadcasts"))]
    log = passes(launch_groups(built.library.name, groups, words, timeout=TIME))
    passed_by = where == "before" or built.library.flavor == "mpich"
    assert ("bcast" in tuned(log, "full_lane")) != passed_by
    assert ("MPI_Bcast is called in" in log) == passed_by


@pytest.mark.parametrize("where", ["before", "behind"])
def test_a_tool_that_renumbers_the_ranks(built: Installation, launch: Launch, where: str) -> None:
    """The world that the program sees has the same size, and some ranks have their own number."""
    tool = shared(built, "tool_reorder")
    env = preloaded(built, before=[tool]) if where == "before" else preloaded(built, tool)
    log = passes(launch(built.library.name, 3, [str(compiled(built, "calls"))], env, timeout=TIME))
    assert not tuned(log, "full_lane")


LIMITS = [
    *(("descriptors", rank, 0) for rank in (0, 1, -1)),
    *(("address space", rank, left) for rank in (0, 1) for left in (300, 1000, 20000)),
    *(("file size", rank, 0) for rank in (0, 3)),
    ("root", -1, 0),
]


@pytest.mark.parametrize(("resource", "rank", "left"), some(LIMITS))
def test_a_resource_ends(
    built: Installation, launch: Launch, resource: str, rank: int, left: int
) -> None:
    """Native needs none of it any more; a window could not be made on all ranks."""
    if built.library.flavor == "mpich" and 0 < left < 20000:
        pytest.skip(
            "MPICH maps memory for long messages: with so little left, more communicators are too many"
        )
    words = [str(compiled(built, "limits")), resource, str(rank), str(left)]
    native = launch(built.library.name, 4, words, {}, timeout=TIME)
    env = {**preloaded(built), "COLLFORGE_FORCE": "*=full_lane[node_phase=shared]"}
    done = launch(built.library.name, 4, words, env, timeout=TIME)
    if native.returncode == 0:
        passes(done)


@either("openmpi")
def test_segments_of_system_v_in_containers(built: Installation) -> None:
    """Each rank has its own, where native without windows needs none."""
    tcp = OPENMPI_OPTIONS.replace(
        "vader,self", "tcp,self --mca btl_tcp_if_include lo --mca shmem sysv"
    )
    env = {**preloaded(built), "COLLFORGE_FORCE": "*=shared_window", "COLLFORGE_NODE_MAP": ""}
    words = ["unshare", "--ipc", str(compiled(built, "calls"))]
    passes(launch_groups(built.library.name, [(4, env)], words, openmpi=tcp, timeout=TIME))


def test_windows_are_off_on_one_rank(built: Installation) -> None:
    """By a parameter of Open MPI."""
    env = {**preloaded(built), "COLLFORGE_FORCE": "*=full_lane[node_phase=shared]"}
    groups = [(1, env), (1, {**env, "OMPI_MCA_osc": "^sm"}), (2, env)]
    passes(launch_groups(built.library.name, groups, [str(compiled(built, "calls"))], timeout=TIME))


def test_hints_in_fortran(built: Installation, launch: Launch) -> None:
    program = str(fortran_program(built, "broadcasts"))
    log = passes(launch(built.library.name, 4, [program, "native"], preloaded(built), timeout=TIME))
    assert "bcast" not in tuned(log, "full_lane")


@pytest.mark.parametrize("mode", ["init", "all", "driver", "driver2"])
def test_mpi_by_a_handle(built: Installation, launch: Launch, mode: str) -> None:
    program = str(compiled(built, "by_handle", "-ldl"))
    passes(launch(built.library.name, 4, [program, mode], preloaded(built), timeout=TIME))


@pytest.mark.parametrize("where", ["before", "behind"])
def test_helper_ranks(built: Installation, launch: Launch, where: str) -> None:
    """A tool keeps one rank in MPI_Init, and the others see a world without it."""
    tool = shared(built, "tool_helper")
    env = preloaded(built, before=[tool]) if where == "before" else preloaded(built, tool)
    passes(launch(built.library.name, 5, [str(compiled(built, "calls"))], env, timeout=TIME))


NEST = """n=$1; shift
[ "$n" -gt 0 ] || exec "$@"
sh "$0" $((n - 1)) "$@"
exit $?
"""


@pytest.mark.parametrize("levels", [0, 20])
def test_one_rank_with_process_numbers_of_its_own(
    built: Installation, tmp_path: Path, levels: int
) -> None:
    """As in a container. Another rank is below this many more processes."""
    nest = tmp_path / "nest.sh"
    nest.write_text(NEST)
    script = f"""case $OMPI_COMM_WORLD_RANK$PMI_RANK in
        1) exec unshare --pid --fork --mount-proc "$@";;
        2) exec sh {nest} {levels} "$@";;
        *) exec "$@";;
    esac"""
    env = {**preloaded(built), "UCX_TLS": "self,tcp"}  # without which MPICH does not start natively
    words = ["sh", "-c", script, "sh", str(compiled(built, "calls"))]
    log = passes(launch_groups(built.library.name, [(4, env)], words, timeout=TIME))
    assert "bcast" in tuned(log, "full_lane")


NAMESPACES = {"m": "--mount", "p": "--pid --fork --mount-proc", "i": "--ipc", "u": "--uts"}
TWO = [a + b for a, b in itertools.combinations("mpiu", 2)]
THREE = ["".join(some) for some in itertools.combinations("mpiu", 3)]


@pytest.mark.parametrize(
    "own",
    [
        *("m", "mpiu"),
        *(pytest.param(one, marks=pytest.mark.wide) for one in ("", *"piu", *TWO, *THREE)),
    ],
)
def test_containers(built: Installation, own: str) -> None:
    """Each rank has namespaces of its own, and its own /dev/shm and host's name where it has those."""
    script = ("mount -t tmpfs tmpfs /dev/shm;" if "m" in own else "") + (
        'hostname "rank$OMPI_COMM_WORLD_RANK$PMI_RANK";' if "u" in own else ""
    )
    options = " ".join(NAMESPACES[one] for one in own).split()
    # After MPICH's own preload of the tests, without which it may hang where ranks share cores.
    script += ' [ -z "$LIBRARY" ] || export LD_PRELOAD="$LD_PRELOAD:$LIBRARY"; exec "$@"'
    contained = [*(["unshare", *options] if own else []), "sh", "-ec", script, "sh"]
    program = str(compiled(built, "calls"))
    tcp = OPENMPI_OPTIONS.replace("vader,self", "tcp,self --mca btl_tcp_if_include lo")
    # MPICH looks for the ranks of its node in /dev/shm.
    apart = {"UCX_TLS": "self,tcp", **({"MPIR_CVAR_NOLOCAL": "1"} if "m" in own else {})}
    for must, openmpi, variables in ((False, OPENMPI_OPTIONS, {}), (True, tcp, apart)):
        done = []
        for force in ("", "*=shared_window", "*=full_lane[node_phase=shared]"):
            env = {**preloaded(built), "COLLFORGE_FORCE": force, "COLLFORGE_NODE_MAP": ""}
            env["LIBRARY"] = env.pop("LD_PRELOAD")
            each = {**variables, **(env if force else {})}
            words = ["env", *(f"{name}={each[name]}" for name in each), *contained, program]
            groups = [(2, {})]
            done.append(
                launch_groups(built.library.name, groups, words, openmpi=openmpi, timeout=TIME)
            )
        native, *others = done
        assert not must or native.returncode == 0, native.stderr
        for one in others:
            assert (one.returncode, one.stdout) == (native.returncode, native.stdout), one.stderr


def test_two_builds(built: Installation, tmp_path: Path) -> None:
    """Their generated code is the same; what differs is the linker's hash of the whole file."""
    library = built.built.library_path
    notes = execute(["readelf", "--notes", str(library)]).stdout
    code, identity = library.read_bytes(), bytes.fromhex(notes.split("Build ID: ")[1].split()[0])
    assert code.count(identity) == 1
    other = tmp_path / library.name
    shutil.copy(library, other)
    other.write_bytes(code.replace(identity, identity[::-1]))
    env = preloaded(built)
    groups = [(2, env), (2, {**env, "LD_PRELOAD": str(other)})]
    log = passes(
        launch_groups(built.library.name, groups, [str(compiled(built, "calls"))], timeout=TIME)
    )
    assert "the ranks run different builds of libcollforge.so; native collectives" in log


# ---- before MPI_Init, and without it -------------------------------------------------------------


@pytest.mark.parametrize("free", ["yes", "no"])
def test_mpi_in_constructors(built: Installation, launch: Launch, free: str) -> None:
    """A library of the program, which is initialised before ours, starts MPI, and frees a communicator."""
    own = shared(built, "init_in_library", f"-DFREE={int(free == 'yes')}")
    program = str(compiled(built, "in_library", str(own), f"-Wl,-rpath,{own.parent}"))
    passes(launch(built.library.name, 4, [program], preloaded(built), timeout=TIME))


@pytest.mark.parametrize("order", ["before", "behind"])
def test_a_tool_that_starts_mpi(built: Installation, launch: Launch, order: str) -> None:
    """In its constructor, preloaded: served, without a warning."""
    tool = shared(built, "init_in_library", "-DFREE=1")
    env = preloaded(built, before=[tool]) if order == "before" else preloaded(built, tool)
    program = str(compiled(built, "in_library", str(tool), f"-Wl,-rpath,{tool.parent}"))
    log = passes(launch(built.library.name, 4, [program], env, timeout=TIME))
    assert "warning" not in log and tuned(log, "full_lane")


def test_a_serial_stub_of_mpi(built: Installation) -> None:
    """The MPI library that ours is linked with must not be called then."""
    stub = compile_once(
        "stub.so", ["gcc", "-shared", "-fPIC", HAZARDS / "serial_stub.c"], HAZARDS / "serial_stub.c"
    )
    source = HAZARDS / "serial.c"
    program = compile_once(
        "serial", ["gcc", source, str(stub), f"-Wl,-rpath,{stub.parent}"], source
    )
    variables = {**preloaded(built), "COLLFORGE_VERBOSE": "0"}
    done = execute(["env", *(f"{name}={value}" for name, value in variables.items()), str(program)])
    assert passes(done) == ""


def test_a_plugin_with_another_mpi_library(built: Installation, tmp_path: Path) -> None:
    """Its calls reach the MPI library that the preload brings: the process ends, with the reason."""
    (other,) = {*LIBRARIES} - {built.library.name}
    plugin = tmp_path / "plugin.so"
    command = [f"mpicc.{other}", "-shared", "-fPIC", str(HAZARDS / "plugin.c"), "-o", str(plugin)]
    assert execute(command).returncode == 0
    source = HAZARDS / "no_mpi.c"
    program = compile_once("no_mpi", ["gcc", source, "-ldl"], source)
    variables = {**preloaded(built), "COLLFORGE_VERBOSE": "0"}
    words = [*(f"{name}={value}" for name, value in variables.items()), str(program), str(plugin)]
    done = execute(["env", *words])
    assert done.returncode == 1
    assert f"{plugin} is linked with " in done.stderr
    assert "preload the library that is built for the former, or none" in done.stderr


# ---- what is the program's -----------------------------------------------------------------------


def test_a_name_in_a_delete_callback(built: Installation) -> None:
    pass_cases(built, 4, ["named_late"], FULL_LANE)


def test_hints_on_communicators(built: Installation) -> None:
    pass_cases(built, 4, ["hinted"], {**FULL_LANE, "COLLFORGE_SPLIT_OPS": "0"}, linked=True)


def test_signatures_by_unlike_types(built: Installation) -> None:
    pass_cases(built, 4, ["unlike_numbers"], FULL_LANE)


@pytest.mark.parametrize(
    "family", ["full_lane", "hierarchical", "rank_shift", "shared_window", "flat"]
)
def test_ops_that_need_the_whole_vector(built: Installation, family: str) -> None:
    env = {
        "COLLFORGE_NODE_MAP": "4" if family == "shared_window" else "1" if family == "flat" else "2"
    }
    pass_cases(
        built,
        4,
        ["positional_op"],
        {**env, "COLLFORGE_FORCE": f"*={family}", "COLLFORGE_SPLIT_OPS": "0"},
    )


@either
@pytest.mark.parametrize("check", ["1", ""])
def test_such_ops_are_named(built: Installation, launch: Launch, check: str) -> None:
    program = str(compiled(built, "positional_op", "-rdynamic"))
    env = {**preloaded(built), "COLLFORGE_CHECK_OPS": check}
    log = passes(launch(built.library.name, 4, [program], env, timeout=TIME))
    said = [line for line in log.splitlines() if "gives another result in two halves" in line]
    assert sum("the op op6 (" in line for line in said) == (4 if check else 0)
    assert any("the op larger (" in line for line in said) == bool(check)
    assert not any(f"the op {name} (" in line for name in ("swaps", "pads") for line in said)


@pytest.mark.parametrize("variable", ["NOTHING", "CHECK_OPS", "SPLIT_OPS"])
def test_an_illegal_op_is_an_error(built: Installation, variable: str) -> None:
    pass_cases(built, 4, ["illegal_op"], {**FULL_LANE, f"COLLFORGE_{variable}": "1"})


def threads(built: Installation, launch: Launch, name: str, **env: str) -> str:
    program = str(compiled(built, name, "-fopenmp"))
    variables = {**preloaded(built), "OMP_NUM_THREADS": "3", **env}
    done = launch(built.library.name, 4, [program], variables, timeout=TIME)
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def test_data_of_openmp_threads(built: Installation, launch: Launch) -> None:
    """A region with fewer threads than the team would lose it."""
    env = {"COLLFORGE_NODE_MAP": "1", "COLLFORGE_FORCE": "*=thread_split[threads=2]"}
    said = threads(built, launch, "threadprivate", COLLFORGE_THREAD_MULTIPLE="always", **env)
    assert said == "wrong sums 0, lost threadprivate values 0\n"


@pytest.mark.parametrize("openmp", [True, False])
def test_the_thread_level_is_the_programs(
    built: Installation, launch: Launch, openmp: bool
) -> None:
    program = str(
        compiled(
            built, "one_sided", *(["-fopenmp", "-Wl,--no-as-needed", "-lgomp"] if openmp else [])
        )
    )
    variables = {**preloaded(built), "OMP_NUM_THREADS": "3", "COLLFORGE_THREAD_MULTIPLE": "1"}
    done = launch(built.library.name, 4, [program], variables, timeout=TIME)
    assert (done.returncode, done.stdout) == (0, "passed, MPI_Query_thread says SINGLE\n"), (
        done.stderr
    )


def test_a_load_that_waits_for_a_collective(built: Installation, launch: Launch) -> None:
    """No collective may wait for the loader's lock."""
    slow = shared(built, "slow_load")
    program = str(compiled(built, "loader_lock", "-rdynamic", "-ldl"))
    passes(launch(built.library.name, 4, [program, str(slow)], preloaded(built), timeout=TIME))


@either
def test_a_profile_of_a_program_that_goes_elsewhere(
    built: Installation, launch: Launch, tmp_path: Path
) -> None:
    """It changes its directory and clears its environment: the file is where the job was started."""
    program = str(compiled(built, "elsewhere"))
    away = tmp_path / "away"
    away.mkdir()
    relative = os.path.relpath(tmp_path / "profile.csv")
    env = {**preloaded(built), "COLLFORGE_PROFILE": relative}
    done = launch(built.library.name, 2, [program, str(away), "clear"], env, timeout=TIME)
    assert done.returncode == 0
    with (tmp_path / "profile.csv").open() as file:
        assert {"allreduce"} <= {row["collective"] for row in csv.DictReader(file)}


@pytest.mark.parametrize("set_uid", [False, True])
def test_a_set_uid_program_reads_no_variables(built: Installation, set_uid: bool) -> None:
    """Linked with the library, it would write a file as root that its user named."""
    if os.geteuid() != 0:
        pytest.skip("only root can make such a program")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = folder / "calls"
        shutil.copy(hybrid_program(built, "calls"), program)
        program.chmod(0o4755 if set_uid else 0o755)
        folder.chmod(0o777)
        words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "-i"]
        words += [
            "OMPI_MCA_ess_singleton_isolated=1",
            f"COLLFORGE_PROFILE={folder / 'profile.csv'}",
        ]
        done = execute([*words, str(program)])
        if "cannot open shared object" in done.stderr:
            pytest.skip("this user cannot read the library")
        assert "passed" in done.stdout.splitlines(), done.stderr
        assert (folder / "profile.csv").exists() != set_uid


@either
def test_a_misspelt_variable_is_named(built: Installation, launch: Launch) -> None:
    """Names that are one letter off; others, such as the commands' own, are not ours to judge."""
    wrong = {"VERBOS": "VERBOSE", "GAURD": "GUARD", "FORCEE": "FORCE", "MENORY": "MEMORY"}
    right = {"COLLFORGE_HOME": "/x", "COLLFORGE_MPI_OPENMPI": "/x", "COLLFORGE_DB_SHA": "x"}
    env = {**preloaded(built), **right, **{f"COLLFORGE_{name}": "1" for name in wrong}}
    log = passes(launch(built.library.name, 2, [str(compiled(built, "calls"))], env, timeout=TIME))
    named = re.findall(r"COLLFORGE_(\w+) is ignored: did you mean COLLFORGE_(\w+)\?", log)
    assert dict(named) == wrong


# ---- a way to see --------------------------------------------------------------------------------


@either
def test_a_rank_that_waits_tells_where(built: Installation, launch: Launch) -> None:
    """After a time, once; on a signal, each time."""
    env = {**preloaded(built), "COLLFORGE_REPORT": "1,USR2", "COLLFORGE_VERBOSE": "0"}
    program = str(compiled(built, "late_root"))
    log = passes(launch(built.library.name, 4, [program], env, timeout=TIME))
    call = r"in MPI_Bcast of 4096 bytes, layout 2x2, by full_lane\[.*\], for \d s"
    lines = Counter(re.findall(rf"collforge: (rank \d: {call})", log))
    told = Counter(line[:6] for line in lines.elements())
    assert told["rank 1"] in (2, 3) and told["rank 2"] == told["rank 3"] == 1, log


def test_a_signal_never_ends_the_job(built: Installation, launch: Launch) -> None:
    """Also where the library is off."""
    env = {**preloaded(built), "COLLFORGE_REPORT": "USR2", "COLLFORGE_DISABLE": "1"}
    log = passes(
        launch(built.library.name, 4, [str(compiled(built, "late_root"))], env, timeout=TIME)
    )
    assert "collforge: rank 1: the library is not active" in log


@either
@pytest.mark.parametrize("text", ["1.5", "USR3", "60,", "60;USR1", "0", "-1"])
def test_a_report_that_nobody_understands(built: Installation, launch: Launch, text: str) -> None:
    env = {**preloaded(built), "COLLFORGE_REPORT": text}
    log = passes(launch(built.library.name, 2, [str(compiled(built, "calls"))], env, timeout=TIME))
    assert f"COLLFORGE_REPORT='{text}' is neither seconds nor USR1" in log
