"""The commands of the papers, found by the command line through setup.cfg (entry points)."""
