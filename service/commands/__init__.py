"""The commands of the service, found by the command line through setup.cfg (entry points)."""
