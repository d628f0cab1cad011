"""The MPI libraries' own algorithms: timed, chosen, and written as their tuning files."""
