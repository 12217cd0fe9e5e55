"""Repair of broken JSON, fitting of values to a schema, and the time limit of both."""

import json
import random
import time
from contextlib import suppress
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from shared.llm.repair import (
    Repairs,
    UnreadableError,
    cut_text,
    fit_to_schema,
    read_json,
    without_repeats,
)
from tests.support.case_files import read_cases
from tests.support.mutation_statements import broken_text, damage
from tests.support.seeds import first_seed, repeatable, seed_count

CASES = read_cases(__file__)


class Item(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")

    first_name: str
    is_new: bool
    kind: Literal["BUY", "SELL"]


class Whole(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")

    items: list[Item]
    search_hints: list[str]
    note: str | None


VALID = {
    "items": [{"firstName": "a", "isNew": True, "kind": "BUY"}],
    "searchHints": ["x", "y"],
    "note": None,
}


@pytest.mark.parametrize(("text", "value"), CASES["broken_json_is_repaired_and_noted"])
def test_broken_json_is_repaired_and_noted(text: str, value: Any) -> None:
    repairs = Repairs()
    assert read_json(text, repairs) == value
    assert repairs.all_notes


@pytest.mark.parametrize("text", ["", "I would rather not.", '"a"', "7" * 5000, "null and void"])
def test_text_without_json_yields_no_object_or_list(text: str) -> None:
    try:
        value = read_json(text, Repairs())
    except UnreadableError:
        return
    assert not isinstance(value, dict | list)


@pytest.mark.parametrize("value", [VALID, [], {}, "text", 1.5, {"a": ["", {"b": "\u2028"}]}])
def test_valid_json_is_read_unchanged_without_notes(value: Any) -> None:
    repairs = Repairs()
    assert read_json(json.dumps(value), repairs) == value
    assert repairs.all_notes == []


def test_incomplete_items_of_a_truncated_answer_are_dropped() -> None:
    whole = {"queries": [{"o": "one"}, {"o": "two"}], "insights": [{"n": "three"}, {"n": "four"}]}
    text = json.dumps(whole)
    cut = text[: text.index("four") + 2]
    assert read_json(cut, Repairs(), is_cut=True) == {**whole, "insights": [{"n": "three"}]}
    first = text[: text.index("two") + 2]
    assert read_json(first, Repairs(), is_cut=True) == {"queries": [{"o": "one"}]}


@pytest.mark.parametrize(
    "text",
    [
        "{" * 20_000,
        "[" * 100_000,
        '{"a":[' * 5_000,
        '{"' * 10_000,
        '["a" b "c" ' * 2_000,
        '{"a": "x" y "z", ' * 5_000,
        '"' * 50_000,
        "```json" * 10_000,
        "/*" * 20_000,
        "\\" * 100_000,
        "{" + "a:" * 20_000,
    ],
    ids=lambda text: text[:8],
)
def test_hostile_text_is_processed_in_bounded_time(text: str) -> None:
    start = time.process_time()
    with suppress(UnreadableError):
        read_json(text, Repairs())
    assert time.process_time() - start < 10  # without a limit some take minutes


def test_the_repair_limit_is_deterministic() -> None:
    """A worker that resumes a step must repair the text with the same result, under any load."""
    text = '["a" b "c" ' * 600
    results = set()
    for _ in range(3):
        try:
            results.add(json.dumps(read_json(text, Repairs())))
        except UnreadableError as error:
            results.add(str(error))
    assert len(results) == 1


@pytest.mark.parametrize(
    ("value", "note"),
    [
        ({"Items": VALID["items"], "search_hints": ["x", "y"], "note": None}, "Items"),
        ({**VALID, "searchHints": "- x\n- y"}, "searchHints was not a list"),
        ({**VALID, "note": "null"}, ""),
        ({**VALID, "items": VALID["items"][0]}, "items was not a list"),  # type: ignore[index]
        ({**VALID, "items": json.dumps(VALID["items"])}, "JSON inside a string"),
        ({**VALID, "items": {"a": {"isNew": True, "kind": "BUY"}}}, "items was not a list"),
        (
            {**VALID, "items": [{"first_name": "a", "is_new": "yes", "kind": "buy"}]},
            "'buy' was read",
        ),
        ({**VALID, "extra": 1}, "extra was not requested"),
        ({"plan": VALID}, "was used directly"),
        ([VALID], "was a list"),
        (json.dumps(VALID), "JSON inside a string"),
    ],
)
def test_other_spellings_and_similar_types_are_fitted_to_the_schema(value: Any, note: str) -> None:
    repairs = Repairs()
    fit = Whole.model_validate(fit_to_schema(Whole, value, repairs, salvage=True))
    assert fit == Whole.model_validate(VALID)
    assert note in " ".join(repairs.all_notes)


def test_a_valid_value_is_not_changed() -> None:
    repairs = Repairs()
    for salvage in (True, False):
        assert fit_to_schema(Whole, VALID, repairs, salvage=salvage) == VALID
    assert repairs.all_notes == []


def test_without_salvage_extra_fields_are_rejected() -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        Whole.model_validate(fit_to_schema(Whole, {**VALID, "more": 1}, Repairs(), salvage=False))


def test_random_damage_never_breaks_the_repair() -> None:
    start = first_seed()
    for seed in range(start, start + (seed_count() or 300)):
        with repeatable(seed):
            rng = random.Random(seed)
            text = broken_text(damage(VALID, rng, rng.randrange(6)), rng)
            repairs = Repairs()
            try:
                value = read_json(text, repairs, is_cut=rng.random() < 0.3)
                Whole.model_validate(fit_to_schema(Whole, value, repairs, salvage=True))
            except (UnreadableError, ValidationError):
                continue
            json.dumps(repairs.all_notes)


def test_texts_are_cut_at_word_boundaries_and_duplicates_are_removed() -> None:
    assert cut_text("one two three", 9) == "one two…"
    assert len(cut_text("x" * 50, 10)) == 10
    repairs = Repairs()
    assert without_repeats(["a", "b", "a", "a"], "items", repairs) == ["a", "b"]
    assert repairs.all_notes == ["2 items repeated others and were left out."]
