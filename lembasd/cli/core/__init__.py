"""Decisions of the commands: no I/O, clock, randomness or logger."""
