"""Faults that the health page reports for the API's measurements."""

from dataclasses import replace

from services.api.resources.operate.diagnostics import (
    SERVICE_TASKS,
    SERVICES,
    LoadSampler,
    Measurements,
    ServiceLoad,
    diagnose,
)
from services.api.resources.operate.model import InstallationState, Leases, Waiting, Workforce
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
        "The analyzer is not running: insights wait.",
        "60 messages are waiting for the analyzer.",
        "2 messages failed permanently.",
    ]


def test_a_missing_consumer_an_expired_lease_and_an_unavailable_bus_are_reported() -> None:
    disconnected = replace(HEALTHY_LOAD, queue=Queue("analyzer"), leases=Leases(0, 3, 1))
    faults = messages(replace(MEASUREMENTS, loads=[disconnected], bus_fault="NATS is away"))
    assert faults[0] == "NATS does not answer, so no messages are delivered: NATS is away."
    assert faults[1] == "The analyzer receives no messages: its queue is missing on NATS."
    assert faults[2] == "3 steps of the analyzer lost their worker."


def test_waiting_for_a_provider_and_for_a_worker_are_told_apart() -> None:
    waiting = replace(
        HEALTHY_LOAD, waiting=Waiting(None, 1, "the model server answered 503: overloaded")
    )
    assert messages(replace(MEASUREMENTS, loads=[waiting])) == [
        "1 step of the analyzer is waiting for a provider: the model server answered 503: overloaded."
    ]
    queued = replace(HEALTHY_LOAD, waiting=Waiting(oldest_seconds=305.2))
    assert messages(replace(MEASUREMENTS, loads=[queued])) == [
        "A step has waited 5 min 5 s for the analyzer."
    ]
    assert messages(replace(MEASUREMENTS, loads=[replace(queued, waiting=Waiting(299.0))])) == []


def test_every_fault_says_what_to_do_and_dead_letters_are_linked() -> None:
    stopped = replace(HEALTHY_LOAD, replicas=0, queue=Queue("analyzer"), leases=Leases(0, 1, 1))
    faults = diagnose(
        replace(
            MEASUREMENTS,
            loads=[stopped],
            state=InstallationState({}, 1, 0),
            listeners=100,
            bus_fault="it is away",
            scripts_are_there=False,
        )
    )
    assert len(faults) == 7
    assert all(fault.fix.endswith(".") for fault in faults)
    assert [fault.link for fault in faults if fault.link] == [
        ("#dead-letters", "Open dead letters")
    ]


def test_every_service_has_a_task_in_words() -> None:
    assert set(SERVICE_TASKS) == set(SERVICES)


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


def test_a_stopped_service_was_last_seen_when_it_had_a_replica() -> None:
    sampler = LoadSampler()

    def seen_seconds_ago(now: float, replicas: int) -> float | None:
        loads = sampler.look(now, [], Workforce({"analyzer": replicas}))
        return next(load.seen_seconds_ago for load in loads if load.service == "analyzer")

    assert seen_seconds_ago(0.0, 0) is None
    assert seen_seconds_ago(5.0, 2) == 0.0
    assert seen_seconds_ago(65.0, 0) == 60.0


def test_a_service_works_on_messages_or_on_steps() -> None:
    busy = replace(HEALTHY_LOAD, queue=Queue("analyzer", 0, 2, 2, 7), leases=Leases(3, 0, 1))
    assert busy.active == 3
    assert replace(busy, leases=Leases()).active == 2
