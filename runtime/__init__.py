"""The C runtime: sources, which collforge.toolchain.build compiles for each MPI library."""
