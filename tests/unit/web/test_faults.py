"""What the page of health says of what the api has seen."""

from dataclasses import replace

from services.api.diagnostics import LoadSampler, Measurements, ServiceLoad, diagnose
from services.api.queries.operations import InstallationState, Leases, Workforce
from shared.events.stream_admin import Queue

WELL = ServiceLoad("analyzer", 1, Queue("analyzer", 0, 0, 2, 7), None, Leases())
SEEN = Measurements([WELL], None, InstallationState({}, 0, 0), 1, 100, scripts_are_there=True)


def told(seen: Measurements) -> list[str]:
    return [fault.message for fault in diagnose(seen)]


def test_of_what_is_well_nothing_is_said() -> None:
    assert told(SEEN) == []


def test_what_is_wrong_stands_before_what_is_worth_knowing() -> None:
    gone = replace(WELL, replicas=0, queue=Queue("analyzer", 60, 0, 0, 7))
    seen = replace(SEEN, loads=[gone], state=InstallationState({}, 2, 0))
    assert told(seen) == [
        "No analyzer is connected to PostgreSQL: insights wait.",
        "60 messages wait for the analyzer.",
        "2 messages could not be handled.",
    ]


def test_a_consumer_that_is_not_there_a_lapsed_lease_and_an_absent_bus_are_told() -> None:
    deaf = replace(WELL, queue=Queue("analyzer"), leases=Leases(0, 3, 1))
    found = told(replace(SEEN, loads=[deaf], bus_fault="NATS is away"))
    assert found[0] == "The bus does not answer: NATS is away."
    assert found[1].startswith("The consumer of the analyzer is not on the bus")
    assert found[2].startswith("3 steps of the analyzer")


def test_a_rate_is_that_of_the_last_minute_and_never_below_nothing() -> None:
    loads = LoadSampler()

    def rate(now: float, delivered: int) -> float | None:
        found = loads.look(now, [Queue("analyzer", 0, 0, 0, delivered)], Workforce())
        return next(each.per_second for each in found if each.actor == "analyzer")

    assert rate(0.0, 10) is None
    assert rate(0.5, 20) is None
    assert rate(10.0, 30) == 2.0
    assert rate(65.0, 85) == 1.0
    assert rate(66.0, 0) == 0.0
