"""The terminal program `lembas`: a chat on the hub's socket. What it decides is in `core/`, what it draws in `widgets/`."""
