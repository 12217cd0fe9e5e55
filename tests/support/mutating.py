"""Random damage to JSON, of the kinds that weak models do to it."""

import copy
import json
import random
from typing import Any

_OTHERS: tuple[Any, ...] = (
    None, True, 0, -1.5, 10**40, "", " ", "x" * 3000, "\ud800", [], {}, [[]], ["a", 1], {"a": {"b": []}},
)  # fmt: skip


def damaged(value: Any, rng: random.Random, times: int) -> Any:
    """A copy of `value` with dropped keys, changed types, other spellings of keys and texts, and doubled items."""
    value = copy.deepcopy(value)
    for _ in range(times):
        place = rng.choice(list(_containers(value)) or [None])
        if isinstance(place, dict) and place:
            _damage_object(place, rng)
        elif isinstance(place, list) and place:
            _damage_list(place, rng)
    return value


def broken_text(value: Any, rng: random.Random) -> str:
    """`value` as a text that is JSON mostly, and in some way not."""
    text = json.dumps(value, ensure_ascii=rng.random() < 0.5)
    for _ in range(rng.randrange(3)):
        at = rng.randrange(len(text) + 1)
        text = rng.choice(
            [
                text[:at],
                f"```json\n{text}\n```",
                f"Here it is:\n{text}\nI hope that it helps {{you}}.",
                text.replace('"', "'"),
                text.replace(",", ",,", 3),
                text.replace("}", ",}", 2),
                text[:at] + rng.choice('{}[]",:\\\n') + text[at:],
                f"<think>{{}}</think>{text}",
                text + text,
            ]
        )
    return text


def _containers(value: Any) -> Any:
    if isinstance(value, dict | list):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _containers(inner)


def _damage_object(place: dict[str, Any], rng: random.Random) -> None:
    key = rng.choice(list(place))
    match rng.randrange(5):
        case 0:
            del place[key]
        case 1:
            place[key] = copy.deepcopy(rng.choice(_OTHERS))
        case 2:
            place[rng.choice([key.upper(), f"{key}_", key.replace("T", "_t"), "more"])] = place.pop(
                key
            )
        case 3 if isinstance(place[key], str):
            place[key] = rng.choice([place[key].upper(), f" {place[key]}!", [place[key]]])
        case _:
            place[key] = {"value": place[key]} if rng.random() < 0.5 else json.dumps(place[key])


def _damage_list(place: list[Any], rng: random.Random) -> None:
    at = rng.randrange(len(place))
    match rng.randrange(3):
        case 0:
            del place[at]
        case 1:
            place.append(copy.deepcopy(place[at]))
        case _:
            place[at] = copy.deepcopy(rng.choice(_OTHERS))
