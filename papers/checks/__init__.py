"""The ReFrame checks of the programs; ReFrame loads these files by path."""
