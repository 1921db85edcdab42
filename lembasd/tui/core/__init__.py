"""What the terminal program decides: no screen, no socket, no clock."""
