"""Evidence to winners: pure functions of measurements; nothing here starts a process."""
