"""The systems that tests and tuning run on."""
