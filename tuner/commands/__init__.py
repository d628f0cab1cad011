"""The commands, one module each; collforge.tuner.cli describes such a module."""
