"""Faults that the health page reports for the API's measurements."""

from dataclasses import replace

from services.api.diagnostics import LoadSampler, Measurements, ServiceLoad, diagnose
from services.api.queries.operations import InstallationState, Leases, Workforce
from shared.events.stream_admin import Queue

HEALTHY_LOAD = ServiceLoad("analyzer", 1, Queue("analyzer", 0, 0, 2, 7), None, Leases())
MEASUREMENTS = Measurements(
    [HEALTHY_LOAD], None, InstallationState({}, 0, 0), 1, 100, scripts_are_there=True
)


def messages(measurements: Measurements) -> list[str]:
    return [fault.message for fault in diagnose(measurements)]


def test_a_healthy_installation_has_no_faults() -> None:
    assert messages(MEASUREMENTS) == []


def test_errors_are_listed_before_warnings() -> None:
    stopped = replace(HEALTHY_LOAD, replicas=0, queue=Queue("analyzer", 60, 0, 0, 7))
    measurements = replace(MEASUREMENTS, loads=[stopped], state=InstallationState({}, 2, 0))
    assert messages(measurements) == [
        "No analyzer is connected to PostgreSQL: insights wait.",
        "60 messages wait for the analyzer.",
        "2 messages could not be handled.",
    ]


def test_a_missing_consumer_an_expired_lease_and_an_unavailable_bus_are_reported() -> None:
    disconnected = replace(HEALTHY_LOAD, queue=Queue("analyzer"), leases=Leases(0, 3, 1))
    faults = messages(replace(MEASUREMENTS, loads=[disconnected], bus_fault="NATS is away"))
    assert faults[0] == "The bus does not answer: NATS is away."
    assert faults[1].startswith("The consumer of the analyzer is not on the bus")
    assert faults[2].startswith("3 steps of the analyzer")


def test_the_rate_covers_the_last_minute_and_is_never_negative() -> None:
    sampler = LoadSampler()

    def rate(now: float, delivered: int) -> float | None:
        loads = sampler.look(now, [Queue("analyzer", 0, 0, 0, delivered)], Workforce())
        return next(load.per_second for load in loads if load.service == "analyzer")

    assert rate(0.0, 10) is None
    assert rate(0.5, 20) is None
    assert rate(10.0, 30) == 2.0
    assert rate(65.0, 85) == 1.0
    assert rate(66.0, 0) == 0.0
