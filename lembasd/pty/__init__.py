"""The PTY process: one terminal, its shell and its scrollback. See `core/flow.py` for when reading pauses."""
