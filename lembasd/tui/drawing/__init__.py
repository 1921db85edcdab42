"""Entries and cards as lines of a screen, in the terminal's own sixteen colours: they suit a light and a dark one alike."""
