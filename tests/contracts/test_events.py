"""What was ever on the bus must stay understood."""

import json
from pathlib import Path

import pytest

from shared.errors import PermanentError
from shared.events.codec import decode, encode
from shared.events.models import EVENTS
from shared.events.topology import CONSUMERS, PUBLISHES
from tests.contracts.samples import samples

RELEASED = sorted((Path(__file__).parent / "released").glob("*/*.json"))


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_released_sample_parses_and_keeps_its_facts(path: Path) -> None:
    told = json.loads(path.read_text(encoding="utf-8"))
    again = json.loads(encode(decode(path.read_bytes())))
    assert {key: again.get(key) for key in told} == told


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_fields_of_a_newer_version_are_no_hindrance(path: Path) -> None:
    newer = json.loads(path.read_text(encoding="utf-8")) | {"added_later": {"deep": [1]}}
    assert decode(json.dumps(newer).encode()) == decode(path.read_bytes())


def test_every_event_has_a_released_sample() -> None:
    assert {path.stem for path in RELEASED} == {event.wire_type for event in EVENTS}


def test_every_sample_round_trips() -> None:
    for sample in samples():
        assert decode(encode(sample)) == sample


def test_ids_tell_facts_apart_and_publications_not() -> None:
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
def test_what_cannot_be_understood_is_refused_with_a_code(payload: bytes, code: str) -> None:
    with pytest.raises(PermanentError) as refused:
        decode(payload)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("wire_type", "words"),
    [
        ("vigil.query.v2.completed", "does not know version 2 of query.completed"),
        ("vigil.nothing.v1.happened", "does not know the event 'vigil.nothing.v1.happened'"),
        ("y" * 500_000, "does not know the event"),
    ],
)
def test_what_is_not_known_is_told_in_words_that_fit_a_line(wire_type: str, words: str) -> None:
    with pytest.raises(PermanentError, match=f"this version of Vigil .*{words}") as refused:
        decode(json.dumps({"type": wire_type}).encode())
    assert "upgrade, then retry" in str(refused.value)
    assert len(str(refused.value)) < 300


def test_every_event_is_sent_and_the_actors_hear_only_what_is_sent() -> None:
    sent = {
        event for actor, events in PUBLISHES.items() if actor != "scheduler" for event in events
    }
    heard = {event for consumer in CONSUMERS.values() for event in consumer.hears}
    assert heard <= sent | set(PUBLISHES["scheduler"])
    # Nobody but the api and people listen to these.
    assert {event.subject for event in set(EVENTS) - heard} == {"advice.produced"}
