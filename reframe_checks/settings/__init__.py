"""Configurations for ReFrame. It loads them by path."""
