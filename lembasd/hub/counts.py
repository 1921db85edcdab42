"""What a hub has counted since it started, for `lembasd metrics`."""

from msgspec import Struct


class Counts(Struct):
    """Each only grows. `failed`: could not be started; `crashed`: ended as it should not have."""

    processes_started: int = 0
    processes_failed: int = 0
    processes_crashed: int = 0
    processes_adopted: int = 0
    link_ups: int = 0
    clients_joined: int = 0
