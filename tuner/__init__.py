"""The tuner (plans measurements, runs them, selects winners, stores them) and the command line."""
