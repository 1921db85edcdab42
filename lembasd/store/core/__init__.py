"""Pure parts of the store: the turn ledger and what a journal folds to."""
