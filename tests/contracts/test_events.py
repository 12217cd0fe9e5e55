"""Events: every sample round-trips, newer fields are ignored, and every released event stays readable.

A release writes its files with `python -m tests.support.contracts.samples VERSION`; the tests with `release` or `path`
compare the current code with each release.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import FormatChecker, validate
from jsonschema import ValidationError as SchemaError

from shared.errors import PermanentError
from shared.events.codec import decode, encode
from shared.events.models import EVENTS
from shared.events.topology import CONSUMERS, PUBLISHES
from tests.support.contracts import samples as released
from tests.support.contracts.samples import samples

RELEASED = sorted(released.RELEASED.glob("*/vigil.*.json"))
RELEASES = sorted(path.parent for path in released.RELEASED.glob(f"*/{released.SHAPES}"))
SAMPLES = {sample.type: json.loads(encode(sample)) for sample in samples()}


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_released_sample_parses_without_losing_fields(path: Path) -> None:
    sample = json.loads(path.read_text(encoding="utf-8"))
    reencoded = json.loads(encode(decode(path.read_bytes())))
    assert {key: reencoded.get(key) for key in sample} == sample


@pytest.mark.parametrize("wire_type", SAMPLES)
def test_fields_of_a_newer_version_are_ignored(wire_type: str) -> None:
    sample = SAMPLES[wire_type]
    assert decode(json.dumps(with_added_fields(sample)).encode()) == decode(
        json.dumps(sample).encode()
    )


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_fields_of_a_newer_version_are_ignored_in_released_samples(path: Path) -> None:
    newer = with_added_fields(json.loads(path.read_text(encoding="utf-8")))
    assert decode(json.dumps(newer).encode()) == decode(path.read_bytes())


def with_added_fields(value: Any) -> Any:
    """Add unknown fields to every object at any depth, as a newer version may."""
    match value:
        case dict():
            fields = {key: with_added_fields(inner) for key, inner in value.items()}
            return fields | {"added_later": {"deep": [1]}, "also_later": None}
        case list():
            return [with_added_fields(inner) for inner in value]
        case _:
            return value


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_current_events_are_valid_for_every_release(release: Path) -> None:
    shapes = json.loads((release / released.SHAPES).read_text(encoding="utf-8"))
    assert shapes.keys() <= SAMPLES.keys(), "an event of that release has no sample today"
    for wire_type, shape in shapes.items():
        validate(SAMPLES[wire_type], shape, format_checker=FormatChecker())


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_no_enum_value_is_unknown_to_a_release(release: Path) -> None:
    released_values = enum_values(
        json.loads((release / released.SHAPES).read_text(encoding="utf-8"))
    )
    current_values = enum_values(released.shapes())
    assert released_values
    for path in released_values.keys() & current_values.keys():
        assert current_values[path] <= released_values[path], (
            f"{path}: only a new version of the event may have new values"
        )


def enum_values(schema: Any, path: str = "") -> dict[str, set[str]]:
    """Return the enum values of a schema, by their path."""
    if isinstance(schema, list):
        schema = {str(number): inner for number, inner in enumerate(schema)}
    if not isinstance(schema, dict):
        return {}
    values = {path: set(schema["enum"])} if isinstance(schema.get("enum"), list) else {}
    for key, inner in schema.items():
        values |= enum_values(inner, f"{path}/{key}")
    return values


def test_an_event_without_a_released_field_is_invalid() -> None:
    shapes = released.shapes()
    sample = dict(SAMPLES["vigil.plan.v1.produced"])
    validate(sample, shapes["vigil.plan.v1.produced"], format_checker=FormatChecker())
    del sample["queries"]
    with pytest.raises(SchemaError, match="'queries' is a required property"):
        validate(sample, shapes["vigil.plan.v1.produced"])


def test_current_samples_match_the_current_schemas() -> None:
    shapes = released.shapes()
    assert shapes.keys() == SAMPLES.keys()
    for wire_type, shape in shapes.items():
        validate(SAMPLES[wire_type], shape, format_checker=FormatChecker())


def test_released_files_are_never_changed_or_removed() -> None:
    assert (released.RELEASED / released.SUMS).read_text(encoding="utf-8") == released.sums()


def test_every_event_has_a_sample() -> None:
    assert {sample.type for sample in samples()} == {event.wire_type for event in EVENTS}


def test_every_event_has_a_released_sample() -> None:
    assert {path.stem for path in RELEASED} == {event.wire_type for event in EVENTS}


def test_every_sample_round_trips() -> None:
    for sample in samples():
        assert decode(encode(sample)) == sample


def test_event_ids_are_deterministic_and_unique() -> None:
    first, second = list(samples()), list(samples())
    assert [event.event_id for event in first] == [event.event_id for event in second]
    assert len({event.event_id for event in first}) == len(first)


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (b"\xff\x00 not json", "unreadable_event"),
        (b"[]", "unreadable_event"),
        (b'{"type": "vigil.query.v9.completed"}', "unknown_event"),
        (b'{"type": "vigil.query.v1.completed"}', "unreadable_event"),
    ],
)
def test_an_unreadable_event_is_refused_with_a_code(payload: bytes, code: str) -> None:
    with pytest.raises(PermanentError) as error:
        decode(payload)
    assert error.value.code == code


@pytest.mark.parametrize(
    ("wire_type", "message"),
    [
        ("vigil.query.v2.completed", "does not know version 2 of query.completed"),
        ("vigil.nothing.v1.happened", "does not know the event 'vigil.nothing.v1.happened'"),
        ("y" * 500_000, "does not know the event"),
    ],
)
def test_an_unknown_event_is_refused_with_a_short_message(wire_type: str, message: str) -> None:
    with pytest.raises(PermanentError, match=f"this version of Vigil .*{message}") as error:
        decode(json.dumps({"type": wire_type}).encode())
    assert "upgrade, then retry" in str(error.value)
    assert len(str(error.value)) < 300


def test_every_event_is_published_and_services_consume_only_published_events() -> None:
    published = {
        event for service, events in PUBLISHES.items() if service != "scheduler" for event in events
    }
    consumed = {event for consumer in CONSUMERS.values() for event in consumer.subscribes_to}
    assert consumed <= published | set(PUBLISHES["scheduler"])
    # Only the API and users consume these.
    assert {event.subject for event in set(EVENTS) - consumed} == {
        "answer.completed",
        "answer.failed",
        "configuration.failed",
    }
