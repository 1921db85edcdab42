"""The worker: one process for one session, and the utility worker that reads closed ones."""
