"""Finds MPI libraries, builds the runtime for them, and makes the environment of a job."""
