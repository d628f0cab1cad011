"""Computes the contents of the generated C; the templates only lay it out."""
