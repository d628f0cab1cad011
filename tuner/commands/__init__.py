"""The commands, one module each; collforge.tuner.cli says what such a module has."""
