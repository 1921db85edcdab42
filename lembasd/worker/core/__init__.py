"""Pure parts of the worker."""
