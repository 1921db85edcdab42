"""The native engine: the harness in Python."""


def warm() -> None:
    """Load and open what a turn needs, so that a worker has it whatever is installed meanwhile: no thread, loop or socket is left.

    The first HTTP client costs more than the fork itself: its imports, and a TLS context with the certificates.
    """
    import httpcore  # noqa: F401 - httpx loads it at its first client
    import httpx

    from lembasd.engine.native.model_client import shared_context
    from lembasd.engine.native.searches import held_ripgrep

    held_ripgrep()

    # made and dropped unopened: it has no connection to close
    httpx.AsyncClient(verify=shared_context())


__all__ = ["warm"]
