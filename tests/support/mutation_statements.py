"""Random damage to JSON, like that in responses of weak models."""

import copy
import json
import random
from typing import Any

_OTHERS: tuple[Any, ...] = (
    None, True, 0, -1.5, 10**40, "", " ", "x" * 3000, "\ud800", [], {}, [[]], ["a", 1], {"a": {"b": []}},
)  # fmt: skip


def damage(value: Any, rng: random.Random, times: int) -> Any:
    """A copy of `value` with dropped keys, changed types, respelled keys and texts, and duplicate items."""
    value = copy.deepcopy(value)
    for _ in range(times):
        container = rng.choice(list(_containers(value)) or [None])
        if isinstance(container, dict) and container:
            _damage_object(container, rng)
        elif isinstance(container, list) and container:
            _damage_list(container, rng)
    return value


def broken_text(value: Any, rng: random.Random) -> str:
    """`value` as a text that is almost JSON."""
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


def _damage_object(container: dict[str, Any], rng: random.Random) -> None:
    key = rng.choice(list(container))
    match rng.randrange(5):
        case 0:
            del container[key]
        case 1:
            container[key] = copy.deepcopy(rng.choice(_OTHERS))
        case 2:
            container[rng.choice([key.upper(), f"{key}_", key.replace("T", "_t"), "more"])] = (
                container.pop(key)
            )
        case 3 if isinstance(container[key], str):
            container[key] = rng.choice(
                [container[key].upper(), f" {container[key]}!", [container[key]]]
            )
        case _:
            container[key] = (
                {"value": container[key]} if rng.random() < 0.5 else json.dumps(container[key])
            )


def _damage_list(container: list[Any], rng: random.Random) -> None:
    at = rng.randrange(len(container))
    match rng.randrange(3):
        case 0:
            del container[at]
        case 1:
            container.append(copy.deepcopy(container[at]))
        case _:
            container[at] = copy.deepcopy(rng.choice(_OTHERS))
