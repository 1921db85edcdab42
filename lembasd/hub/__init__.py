"""The hub's process: it routes frames between clients, workers and terminals, and decides policy.

It runs no tool, reads no project file, decodes no message that it passes on, and never imports an engine.
"""
