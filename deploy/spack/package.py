"""A Spack package: the command, and the tree of `collforge install` for one MPI library (deploy/README.md)."""

import os

from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class Collforge(PythonPackage):
    """Generates, verifies, times and runs the fastest MPI collectives of a cluster."""

    homepage = "https://collforge.example"  # your own page
    git = "https://collforge.example/collforge.git"  # or: spack develop --path CHECKOUT collforge@0.1.0

    version("0.1.0", tag="v0.1.0")

    depends_on("c", type=("build", "run"))  # `collforge build` and `tune` compile, too
    depends_on("gmake", type=("build", "run"))
    depends_on("mpi", type=("build", "link", "run"))
    depends_on("hwloc", type=("build", "run"))
    depends_on("sqlite@3.26:", type=("build", "run"))
    depends_on("python@3.9:", type=("build", "run"))
    depends_on("py-setuptools", type="build")
    depends_on("py-jinja2@3.1:3", type=("build", "run"))
    depends_on("py-matplotlib@3.7:", type=("build", "run"))
    depends_on("py-msgspec@0.18:", type=("build", "run"))
    depends_on("py-platformdirs@3:", type=("build", "run"))
    depends_on("py-rich@13:", type=("build", "run"))
    depends_on("py-scikit-optimize@0.10.2:0.10", type=("build", "run"))
    depends_on("py-tomli@2:", type=("build", "run"), when="^python@:3.10")
    depends_on("reframe@4.9:4", type="run")

    def setup_build_environment(self, env):
        env.set("COLLFORGE_HOME", join_path(self.stage.path, "home"))
        self._name_libraries(env)

    def setup_run_environment(self, env):
        self._name_libraries(env)
        env.prepend_path("MODULEPATH", self.prefix.tree.share.modulefiles)

    def _name_libraries(self, env):
        """For `collforge build`, whose mpicc does not know of Spack's other packages."""
        env.set(f"COLLFORGE_MPI_{self._mpi.upper()}", self.spec["mpi"].prefix)
        for name in ("sqlite", "hwloc"):
            env.prepend_path("CPATH", self.spec[name].prefix.include)

    @property
    def _mpi(self):
        return self.spec["mpi"].name.replace("-", "_")

    @run_after("install")
    def install_tree_for_users(self):
        """Without winners: after tuning, `collforge install` makes the tree with them, elsewhere."""
        own = join_path(self.prefix, python_purelib)
        command = Executable(self.prefix.bin.collforge)
        command.add_default_env("PYTHONPATH", f"{own}:{os.environ.get('PYTHONPATH', '')}")
        command("install", "--prefix", self.prefix.tree, "--mpi", self._mpi)
