"""A hundred wrong command lines: each ends with one line that names the fix, before anything is built."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from support import SHARED_HOME

from collforge.toolchain import build
from collforge.tuner.cli import main
from collforge.tuner.run import jobs

# The command line, and a word of the fix. DB: a database without winners.
WRONG = """
bild                                                     | did you mean build
tuen                                                     | did you mean tune
--versoin                                                | COMMAND
tune --sytem local                                       | did you mean --system
tune --mpi openmp                                        | did you mean openmpi
tune --mpi openmpi,mpic                                  | did you mean mpich
tune --system locl                                       | none of emulated, local
tune --system local --layout 4y2                         | NODESxRANKS
tune --system local --layout 0x2                         | NODESxRANKS
tune --system local --layout 2x                          | NODESxRANKS
tune --system local --layout x                           | NODESxRANKS
tune --system local --layout 2x2,                        | NODESxRANKS
tune --system local --layout 3+                          | NODESxRANKS
tune --system local --layout cyclic:2                    | NODESxRANKS
tune --system local --layout map:0.                      | NODESxRANKS
tune --system local --collective bcst                    | did you mean bcast
tune --system local --collective bcast,alreduce          | did you mean allreduce
tune --system local --collective ''                      | collective
tune --system local --sizes 3XB                          | 4KiB
tune --system local --sizes -1                           | 4KiB
tune --system local --sizes 1GiB..1                      | larger
tune --system local --sizes 4KiB..                       | 4KiB
tune --system local --sizes 1,,2x                        | 4KiB
tune --system local --per rank                           | block
tune --system local --budget ten                         | 90s
tune --system local --budget 10x                         | 90s
tune --system local --budget -5m                         | --budget
tune --system local --launches 0                         | 1 or more
tune --system local --launches many                      | 1 or more
tune --system local --margin big                         | --margin
tune --system local --seed x                             | --seed
tune --system local --profile nofile.csv                 | there is no file
tune --system local --db /nowhere/x.db                   | there is no folder
tune --system local --most-layouts few                   | --most-layouts
tune --system local --time-limit soon                    | 90s
tune --system local --node-hours many                    | --node-hours
tune --system site --config nofile.py                    | there is no file
tune --system site --layout 2x2                          | --config
tune --rails two                                         | --rails
tune --rail-model bound                                  | tied
tune extra                                               | does not take extra
tune --system local --cover 4                            | NODESxRANKS
tune --system local --cover 8x4 --nodes 0                | 1 or more
tune --system local --nodes 2                            | --cover
bench                                                    | --mpi
bench --mpi openmp                                       | did you mean openmpi
bench --mpi openmpi --system local --collective foo      | known:
bench --mpi openmpi --system local --sizes foo           | 4KiB
bench --mpi openmpi --system local --layout 2z2          | NODESxRANKS
bench --mpi openmpi --system local --plot x.xyz          | .png
bench --mpi openmpi --system local --plot x              | .png
bench --mpi openmpi --system local --plot /nowhere/x.png | there is no folder
bench --mpi openmpi --system local --json /nowhere/x     | there is no folder
bench --mpi openmpi --system local --exported nofile     | there is no file
bench --mpi openmpi --system local --tuned-only --steps  | not allowed with
bench --mpi openmpi --system local bcast@2x2             | case string
bench --mpi openmpi --system local bcst:native@2x2,bytes=8 | did you mean bcast
bench --mpi openmpi --system local bcast:ful_lane@2x2,bytes=8 | did you mean full_lane
bench --mpi openmpi --system local --in-a-row x          | --in-a-row
bench --mpi openmpi --system local --samples x           | --samples
verify --family foo                                      | known:
verify --family ful_lane                                 | did you mean full_lane
verify --collective bcst                                 | did you mean bcast
verify --tier huge                                       | paranoid
verify --layout 2q2                                      | NODESxRANKS
verify --native --family full_lane                       | leave out --family
verify bcast                                             | case string
verify bcast:full_lne@2x2,bytes=8                        | did you mean full_lane
verify bcast:full_lane[lans=2]@2x2,bytes=8               | did you mean lanes
verify bcast:full_lane@2x2,bytes=8,root=9                | root 9
verify bcast:full_lane@2x2,byts=8                        | bytes
verify --tier full bcast:full_lane@2x2,bytes=8           | leave out --tier
verify --family hierarchical --collective bcast --layout 3x1 | nothing to verify
build --mpi intel                                        | known:
build now                                                | does not take now
export                                                   | --to
export --to openmp                                       | did you mean openmpi
export --to openmpi --system local --collective foo      | known:
export --to openmpi --system local --sizes foo           | 4KiB
env                                                      | --mpi
env --mpi foo                                            | known:
env --mpi smpi-openmpi                                   | --system simulated
run --mpi smpi-mpich -- true                             | --system simulated
install --mpi openmpi,smpi-mpich /nowhere                | --system simulated
cluster run --mpi smpi-mpich -- true                     | --system simulated
run                                                      | --mpi
run --mpi openmpi                                        | COMMAND
run --mpi openmpi --db DB mpirun.mpich -n 2 ./app       | --mpi mpich
run --mpi openmpi --gain 0 -- true                       | 1 or more
run --mpi openmpi --db DB --system foo -- true           | unknown system
winners --format xml                                     | table
winners --db /nowhere/x.db                               | there is no folder
winners --db nofile.db                                   | collforge tune
winners --db DB --mpi foo                                | unknown mpi
winners --db DB --collective foo                         | unknown collective
report --db DB --collective foo                          | known:
report --db DB --since yesterday                         | 2026-01-31
report --db DB --plot x.xyz                              | .png
report --db DB --plot                                    | --plot
why                                                      | COLLECTIVE
why bcst 8 --db DB                                       | did you mean bcast
why bcast big --db DB                                    | 4KiB
db                                                       | ACTION
db chek                                                  | check
db merge --db DB nofile.db                               | there is no file
profile show nofile.csv                                  | there is no file
profile shw calls.csv                                    | show
cluster up                                               | --slurm
cluster run --mpi openmpi                                | CMD
probe overhed                                            | overhead
publish                                                  | --output
install                                                  | --prefix
mpi                                                      | ACTION
mpi add Big /usr                                         | small letters
mpi add other /nowhere                                   | the prefix of other is
mpi find /nowhere                                        | there is no folder
site set colour red                                      | layout
site set config nofile.py                                | there is no file
site set layout 3y                                       | NODESxRANKS
compare DB                                               | B
compare 2026-31-01 mpich --db DB                         | unknown database
compare DB DB                                            | no measured call
db export-samples - --db DB                              | no such samples
db export-samples /nowhere/x --db DB                     | there is no folder
--foo doctor                                             | does not take --foo
db export-samples DB --db DB                             | is a database
doctor --json DB                                         | is a database
doctor --json .                                          | is a folder
site detect x.py --system 'a"b'                          | letters, digits
install --prefix x --module-version 1.lua                | leave out .lua
doctor --json /nowhere/x                                 | there is no folder
install --list nofolder                                  | there is no folder
uninstall                                                | --prefix
uninstall --prefix nofolder                              | install --list
reproduce multi-lane 99                                  | did you mean
"""
LINES = [tuple(map(str.strip, line.rsplit("|", 1))) for line in WRONG.strip().splitlines()]


def refuse(*_: object, **__: object) -> None:
    raise AssertionError("something was built or started")


def test_there_are_a_hundred() -> None:
    assert len({line for line, _ in LINES}) >= 100


@pytest.mark.parametrize(("line", "fix"), LINES, ids=[line for line, _ in LINES])
def test_a_wrong_command_line(
    line: str,
    fix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLLFORGE_HOME", str(SHARED_HOME))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(build, "build", refuse)
    monkeypatch.setattr(jobs, "run", refuse, raising=False)
    words = [str(database(tmp_path)) if word == "DB" else word for word in shlex.split(line)]
    assert main.main(words) == main.USER_ERROR
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1), said
    assert fix in said.err


def database(folder: Path) -> Path:
    from collforge.db import Store

    path = folder / "empty.db"
    with Store(path):
        pass
    return path
