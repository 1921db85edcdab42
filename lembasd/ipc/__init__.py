"""Frames over the Unix socket: framing, peers, and the client side of the hub."""
