"""Decisions of the commands."""
