"""What is on the screen. A widget draws and passes keys on; it decides nothing."""
