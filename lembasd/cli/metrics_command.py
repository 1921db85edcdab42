"""`lembasd metrics`: what a monitoring system is told, as OpenMetrics text."""

import shutil
from collections.abc import Callable, Iterator
from typing import Any, Final

import click
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
    StateSetMetricFamily,
)
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from lembasd.cli import hub_status, running
from lembasd.cli.core.usage import usage
from lembasd.cli.process_usage import look, owners
from lembasd.device.lock import hub_pid
from lembasd.device.log_file import files
from lembasd.device.paths import Paths, find_paths
from lembasd.protocol.errors import EXIT_DONE, EXIT_NOT_RUNNING

_LINK_STATES: Final = ("off", "dialling", "up", "waiting", "refused")
_ALARMS: Final = ("crash_loop", "disk", "descriptors", "terminals")
_COUNTED: Final = {
    "processes_started": "Workers and terminals started.",
    "processes_failed": "Workers and terminals that could not be started.",
    "processes_crashed": "Workers and terminals that ended as they should not have.",
    "processes_adopted": "Workers taken over from an earlier hub.",
    "link_ups": "Times the link came up.",
    "clients_joined": "Clients that connected.",
}


@click.command()
def metrics() -> int:
    """OpenMetrics text of the running hub; without one `lembasd_up 0`, and exit 3."""
    paths = find_paths()
    if hub_pid(paths) is None:
        click.echo(_text(paths, None), nl=False)
        return EXIT_NOT_RUNNING

    async def work() -> int:
        status = await hub_status.of_running(paths)
        click.echo(_text(paths, status), nl=False)
        return EXIT_DONE

    return running.run_async(work)


def _text(paths: Paths, status: dict[str, Any] | None) -> str:
    registry = CollectorRegistry()
    registry.register(_Families(lambda: _families(paths, status)))
    text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return text.decode()


class _Families(Collector):
    def __init__(self, make: Callable[[], Iterator[Metric]]) -> None:
        self._make = make

    def collect(self) -> Iterator[Metric]:
        return self._make()


def _families(paths: Paths, status: dict[str, Any] | None) -> Iterator[Metric]:
    yield _gauge("lembasd_up", "Whether a hub runs.", status is not None)
    if paths.state.exists():
        free = shutil.disk_usage(paths.state).free
        yield _gauge("lembasd_state_free_bytes", "Free where state is kept.", free)
    size = sum(one.stat().st_size for one in files(paths.log))
    yield _gauge("lembasd_log_bytes", "Size of the log, all its files.", size)
    if status is not None:
        yield from _of_hub(status)
        yield from _of_work(status)


def _gauge(name: str, what: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, what, value=float(value))


def _by(name: str, what: str, label: str, values: dict[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, what, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _count(of: list[dict[str, Any]], key: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in of:
        found[one[key]] = found.get(one[key], 0) + 1
    return found


def _of_hub(status: dict[str, Any]) -> Iterator[Metric]:
    hub, link = status["hub"], status["link"]
    yield InfoMetricFamily("lembasd_build", "What runs.", value={"version": hub["version"]})
    yield _gauge("lembasd_uptime_seconds", "Since the hub started.", hub["uptime_s"])
    yield _gauge("lembasd_hub_open_fds", "Descriptors open in the hub.", hub["fds"])
    yield _gauge("lembasd_hub_max_fds", "Descriptors it may have open.", hub["max_fds"])
    problem = status["config_problem"] is not None
    yield _gauge("lembasd_settings_ok", "Whether config, login and trust can be read.", not problem)
    alarms = dict.fromkeys(_ALARMS, 0.0) | _count(status.get("alarms", []), "kind")
    yield _by("lembasd_alarms", "What is wrong now, as `lembasd status` says it.", "kind", alarms)
    states = {state: state == link["state"] for state in _LINK_STATES}
    yield StateSetMetricFamily("lembasd_link_state", "How the link stands.", value=states)
    ready = dict.fromkeys(("worker", "pty"), 0.0)
    ready |= _count([one for one in status["zygotes"] if one["ready"]], "kind")
    yield _by(
        "lembasd_helpers_ready", "Processes that can start sessions or terminals.", "kind", ready
    )
    for name, what in _COUNTED.items():
        yield CounterMetricFamily(f"lembasd_{name}", what, value=status["counts"][name])


def _of_work(status: dict[str, Any]) -> Iterator[Metric]:
    workers, clients = status["workers"], status["clients"]
    sessions = {"idle": 0.0, "working": 0.0, "unresponsive": 0.0, **_count(workers, "state")}
    yield _by("lembasd_sessions", "Sessions with a process.", "state", sessions)
    queued = sum(len(one["queued"]) for one in workers)
    yield _gauge("lembasd_turns_queued", "Prompts that wait for their turn.", queued)
    cards = sum(len(one["cards"]) for one in workers)
    yield _gauge("lembasd_cards_waiting", "Questions that wait for a person.", cards)
    yield _gauge("lembasd_terminals", "Terminals that run.", len(status["terminals"]))
    kinds = {"local": 0.0, "link": 0.0, **_count(clients, "kind")}
    yield _by("lembasd_clients", "Clients that are connected.", "kind", kinds)
    lagging = sum(bool(one["lagging"]) for one in clients)
    yield _gauge("lembasd_clients_lagging", "Clients that do not keep up.", lagging)
    waiting = sum(one["queued_bytes"] for one in clients)
    yield _gauge("lembasd_clients_queued_bytes", "What waits for clients to read it.", waiting)
    whose = owners(status)
    used = usage(whose, {}, look(whose), 0.0)
    memory: dict[str, float] = {}
    processes: dict[str, float] = {}
    for one in used:
        memory[one.kind] = memory.get(one.kind, 0) + one.memory_bytes
        processes[one.kind] = processes.get(one.kind, 0) + one.processes
    yield _by("lembasd_memory_bytes", "Memory, with all that was started.", "kind", memory)
    yield _by("lembasd_processes", "Processes, with all that was started.", "kind", processes)
