"""A session's store: its journal, what is folded from it, and the turn ledger."""
