"""The tuner: plans measurements, runs them, selects winners, stores them; and the command line.

Each room imports only those below it: cli; site, native, probes; run; decide.
"""
