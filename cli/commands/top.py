"""`vigil top`: the load of each service, as the API measures it."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Annotated, Final

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cli.client.client import Client
from cli.command import api_command
from cli.options import AsJson, finite
from cli.render.console import err, out
from cli.render.iterations import outage_sentence
from shared.schemas.base import ProviderOutage
from shared.schemas.operations import ServiceLoadResponse, ServiceLoadsResponse

WITHOUT_QUEUE: Final = ("api",)
_HEADINGS: Final = ("Replicas", "Lag", "In flight", "Waiting", "Per second", "Leases", "Workers")


@api_command
def top(
    client: Client,
    every: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0.2, callback=finite, help="Seconds between updates."),
    ] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Measure one interval and exit.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a live view of each service's lag, messages in flight, rate, leases and replicas until Ctrl-C.

    Requires an operator's credential. With --json, prints one JSON object per interval.
    """
    with suppress(KeyboardInterrupt):
        loads = _loads(client, every_seconds=every, once=once)
        if as_json:
            for services, _ in loads:
                print(json.dumps([asdict(load) for load in services]), flush=True)
            return
        with Live(console=out(), auto_refresh=False, screen=False) as live:
            for services, outages in loads:
                banners = [Text(outage_sentence(outage), "warn") for outage in outages]
                live.update(Group(load_table(services), *banners), refresh=True)


@dataclass(frozen=True)
class Load:
    """The load of one service during an interval. None is unknown."""

    service: str
    replicas: int
    lag: int | None
    in_flight: int | None
    waiting_replicas: int | None
    per_second: float | None
    leases: int
    lapsed_leases: int
    workers: int


def _loads(
    client: Client, *, every_seconds: float, once: bool
) -> Iterator[tuple[list[Load], Sequence[ProviderOutage]]]:
    """The loads of each interval, and the providers that are unavailable. Raises VigilError if the API does not answer."""
    before = client.get(ServiceLoadsResponse, "/services")
    while True:
        time.sleep(every_seconds)
        now = client.get(ServiceLoadsResponse, "/services")
        if now.bus_fault is not None and now.bus_fault != before.bus_fault:
            err().print(f"[warn]NATS is unavailable: {now.bus_fault}[/]")
        yield loads_between(before, now), now.outages
        if once:
            return
        before = now


def loads_between(before: ServiceLoadsResponse, now: ServiceLoadsResponse) -> list[Load]:
    delivered = {load.service: load.delivered for load in before.services}
    seconds = (now.measured_at - before.measured_at).total_seconds()
    return [_load(load, delivered.get(load.service), seconds) for load in now.services]


def _load(service: ServiceLoadResponse, delivered_before: int | None, seconds: float) -> Load:
    is_known = None not in (service.delivered, delivered_before) and seconds > 0
    # The count of a recreated consumer starts at zero.
    count = max(0, (service.delivered or 0) - (delivered_before or 0))
    return Load(
        **service.model_dump(exclude={"delivered"}),
        per_second=count / seconds if is_known else None,
    )


def load_table(loads: Sequence[Load]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("Service", style="agent")
    for heading in _HEADINGS:
        table.add_column(heading, justify="right")
    for load in loads:
        lapsed = f" [bad]+{load.lapsed_leases} lapsed[/]" if load.lapsed_leases else ""
        table.add_row(
            load.service,
            str(load.replicas) if load.replicas else "[bad]0[/]",
            *(
                _number(load.service, value)
                for value in (load.lag, load.in_flight, load.waiting_replicas)
            ),
            "" if load.per_second is None else f"{load.per_second:.1f}",
            f"{load.leases}{lapsed}",
            str(load.workers),
        )
    return table


def _number(service: str, value: int | None) -> str:
    if value is None:
        return "" if service in WITHOUT_QUEUE else "[bad]unknown[/]"
    return str(value)
