"""lembasd: an always-on service that runs coding agents on a person's own computer."""

__version__ = "0.1.0"
