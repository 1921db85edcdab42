"""Engines: what answers a session's prompts."""
