"""The rates of `vigil top`, and its table."""

import io
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Console

from cli.commands.top import Load, load_table, loads_between
from cli.render.console import THEME
from shared.schemas.operations import ServiceLoadResponse, ServiceLoadsResponse

START = datetime(2026, 11, 1, tzinfo=UTC)


def service(service: str = "observer", **values: Any) -> ServiceLoadResponse:
    numbers = {"lag": 0, "in_flight": 1, "waiting_replicas": 3, "delivered": 10}
    leases = {"replicas": 1, "leases": 1, "lapsed_leases": 0, "workers": 1}
    return ServiceLoadResponse(service=service, **{**numbers, **leases, **values})


def loads(seconds: float, *services: ServiceLoadResponse) -> ServiceLoadsResponse:
    return ServiceLoadsResponse(
        measured_at=START + timedelta(seconds=seconds), bus_fault=None, services=list(services)
    )


def rate(before: ServiceLoadsResponse, after: ServiceLoadsResponse) -> float | None:
    [load] = loads_between(before, after)
    return load.per_second


def test_the_rate_is_the_number_of_deliveries_per_second() -> None:
    assert rate(loads(0, service()), loads(2, service(delivered=15))) == 2.5


def test_the_rate_of_a_recreated_consumer_is_not_negative() -> None:
    assert rate(loads(0, service()), loads(2, service(delivered=1))) == 0


def test_without_two_readings_the_rate_is_unknown() -> None:
    assert rate(loads(0, service(delivered=None)), loads(2, service())) is None
    assert rate(loads(0), loads(2, service())) is None
    assert rate(loads(0, service()), loads(0, service())) is None


def table_row(load: Load) -> list[str]:
    buffer = io.StringIO()
    Console(file=buffer, width=120, theme=THEME).print(load_table([load]))
    return buffer.getvalue().splitlines()[1].split()


def test_a_missing_consumer_is_shown_and_the_api_has_none() -> None:
    [missing, api] = loads_between(
        loads(0),
        loads(
            1,
            service(lag=None, in_flight=None, waiting_replicas=None, delivered=None),
            service("api", lag=None, in_flight=None, waiting_replicas=None, delivered=None),
        ),
    )
    assert table_row(missing) == ["observer", "1", "unknown", "unknown", "unknown", "1", "1"]
    assert table_row(api) == ["api", "1", "1", "1"]


def test_lapsed_leases_are_shown() -> None:
    [load] = loads_between(loads(0, service()), loads(1, service(lapsed_leases=2)))
    assert "+2" in table_row(load)
