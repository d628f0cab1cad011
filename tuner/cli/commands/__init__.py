"""The commands, one module each; collforge.tuner.cli.main describes such a module."""
