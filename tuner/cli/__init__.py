"""The command line: commands, their options, tables and plots."""
