"""Events: every sample round-trips, newer fields are ignored, and every released event stays readable.

Nothing has been released. The first release writes its files with `python -m tests.support.contracts.samples`; from then
on the tests with `release` or `path` compare today's code with each release.
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
def test_every_released_sample_parses_and_keeps_its_facts(path: Path) -> None:
    told = json.loads(path.read_text(encoding="utf-8"))
    again = json.loads(encode(decode(path.read_bytes())))
    assert {key: again.get(key) for key in told} == told


@pytest.mark.parametrize("wire_type", SAMPLES)
def test_fields_of_a_newer_version_are_ignored(wire_type: str) -> None:
    sample = SAMPLES[wire_type]
    assert decode(json.dumps(grown(sample)).encode()) == decode(json.dumps(sample).encode())


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_fields_of_a_newer_version_are_ignored_in_released_samples(path: Path) -> None:
    newer = grown(json.loads(path.read_text(encoding="utf-8")))
    assert decode(json.dumps(newer).encode()) == decode(path.read_bytes())


def grown(told: Any) -> Any:
    """As a newer version may tell it: with fields that nobody knows, in every object at any depth."""
    match told:
        case dict():
            known = {key: grown(value) for key, value in told.items()}
            return known | {"added_later": {"deep": [1]}, "also_later": None}
        case list():
            return [grown(value) for value in told]
        case _:
            return told


def test_fields_are_added_at_every_depth() -> None:
    assert "added_later" in grown(SAMPLES["vigil.insight.v1.requested"])["insight"]


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_what_today_is_told_is_understood_by_every_release(release: Path) -> None:
    shapes = json.loads((release / released.SHAPES).read_text(encoding="utf-8"))
    assert shapes.keys() <= SAMPLES.keys(), "an event of that release has no sample today"
    for wire_type, shape in shapes.items():
        validate(SAMPLES[wire_type], shape, format_checker=FormatChecker())


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_no_word_is_used_that_a_release_does_not_know(release: Path) -> None:
    known = words(json.loads((release / released.SHAPES).read_text(encoding="utf-8")))
    used = words(released.shapes())
    assert known
    for place in known.keys() & used.keys():
        assert used[place] <= known[place], f"{place}: only a new version of the event may say more"


def words(shape: Any, place: str = "") -> dict[str, set[str]]:
    """Where an event has one of a few words, by the path in its shape."""
    if isinstance(shape, list):
        shape = {str(number): each for number, each in enumerate(shape)}
    if not isinstance(shape, dict):
        return {}
    found = {place: set(shape["enum"])} if isinstance(shape.get("enum"), list) else {}
    for key, each in shape.items():
        found |= words(each, f"{place}/{key}")
    return found


def test_a_release_would_not_understand_an_event_that_lost_a_field() -> None:
    shapes = released.shapes()
    sample = dict(SAMPLES["vigil.plan.v1.produced"])
    validate(sample, shapes["vigil.plan.v1.produced"], format_checker=FormatChecker())
    del sample["queries"]
    with pytest.raises(SchemaError, match="'queries' is a required property"):
        validate(sample, shapes["vigil.plan.v1.produced"])


def test_todays_samples_fit_todays_schemas() -> None:
    shapes = released.shapes()
    assert shapes.keys() == SAMPLES.keys()
    for wire_type, shape in shapes.items():
        validate(SAMPLES[wire_type], shape, format_checker=FormatChecker())


@pytest.mark.skipif(not RELEASES, reason="nothing has been released")
def test_what_was_released_is_never_changed_or_removed() -> None:
    assert (released.RELEASED / released.SUMS).read_text(encoding="utf-8") == released.sums()


def test_released_files_are_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(released, "RELEASED", tmp_path)
    released.write(tmp_path / "1.0")
    assert {path.stem for path in tmp_path.glob("*/vigil.*.json")} == SAMPLES.keys()
    sums = (tmp_path / released.SUMS).read_text(encoding="utf-8")
    changed = tmp_path / "1.0" / "vigil.plan.v1.failed.json"
    changed.write_text("{}", encoding="utf-8")
    assert released.sums() != sums
    released.write(tmp_path / "1.0")
    assert changed.read_text(encoding="utf-8") == "{}"


def test_every_event_has_a_sample() -> None:
    assert {sample.type for sample in samples()} == {event.wire_type for event in EVENTS}


@pytest.mark.skipif(not RELEASES, reason="nothing has been released")
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
    heard = {event for consumer in CONSUMERS.values() for event in consumer.subscribes_to}
    assert heard <= sent | set(PUBLISHES["scheduler"])
    # Nobody but the api and people listen to these.
    assert {event.subject for event in set(EVENTS) - heard} == {
        "answer.completed",
        "answer.failed",
        "configuration.failed",
    }
