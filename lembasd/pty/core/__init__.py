"""The pure parts of a terminal."""
