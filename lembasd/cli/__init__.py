"""The commands: `lembasd` for the service, `lembas` for a person."""
