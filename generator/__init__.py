"""Turns specs and templates into C variants and ``manifest.json``."""
