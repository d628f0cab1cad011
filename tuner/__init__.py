"""The tuner: plans, runs, selects and stores; and the command line."""
