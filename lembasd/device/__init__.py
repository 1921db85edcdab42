"""This machine's install: paths, config, credentials, trust and limits, lock, logging, runtime."""
