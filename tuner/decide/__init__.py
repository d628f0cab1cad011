"""Measurements to winners: pure functions; nothing here starts a process."""
