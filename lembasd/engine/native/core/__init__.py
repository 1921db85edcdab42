"""Decisions of the native engine. Pure."""
