"""What the hub decides, as pure machines: no I/O, no clock, no randomness, no logger."""
