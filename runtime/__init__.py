"""The C runtime, and how it is built for each MPI library."""
