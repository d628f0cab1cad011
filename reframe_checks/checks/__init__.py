"""The checks. ReFrame loads them by path."""
