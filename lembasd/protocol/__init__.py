"""Every type that crosses a process or the link, with its codecs, bounds and error codes.

Nothing here does I/O, reads a clock or imports another package of ours. To change a wire type: add
a field with a default (a peer of another version leaves it out), never change the meaning of one,
and raise `hello.PROTOCOL` only when an old peer could not go on.
"""
