"""Decisions about this machine's own things: no I/O, clock, randomness or logger."""
