"""Starting processes and learning of their ends, in two ways: by warm zygotes (Linux), by spares (portable)."""
