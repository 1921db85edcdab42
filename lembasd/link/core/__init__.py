"""Decisions of the link. Pure."""
