"""Specs and templates in, C variants and ``manifest.json`` out."""
