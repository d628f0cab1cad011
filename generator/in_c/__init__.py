"""Decides what the generated C says, so that the templates only lay it out."""
