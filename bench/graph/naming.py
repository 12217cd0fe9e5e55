"""Nodes of such a graph: of types, with names of several words and sentences, made up so that no dictionary has them."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from uuid import UUID

from psycopg.types.json import Jsonb

from shared.database import ids

NODE_TYPES: Final = 20
HUB: Final = "The Hub"
COMMON_WORDS: Final = 2_000
"""Names have two of them, and sentences many, the first more than the last."""
RARE_WORDS: Final = 1_000
"""They stand in one summary of twenty."""
DAYS: Final = 60
"""Nodes were touched in the last of them; those of two types not for 90 days more."""
_FORMS: Final = "Corporation Group Holdings Institute Works Agency Port Mine Council Bank Union Ltd"
"""The last word of a name, the first of these more often than the last."""
_SYLLABLES: Final = (
    "ba ce di fo gu ha ke li mo nu pa re si to vu wa xe zi cho dra gle pri sta tri ven"
)

Row = tuple[UUID, UUID, str, str, Jsonb, datetime, datetime]


def nodes(agent_id: UUID, count: int) -> Iterator[Row]:
    """Rows of id, agent, type, name, properties, created and updated; one of them is the hub. The same each time."""
    chance = random.Random(count)
    words, now = _words(), datetime.now(UTC)
    rare = words[COMMON_WORDS:]
    for number in range(count):
        kind = int(chance.random() ** 2 * NODE_TYPES)
        name = HUB if number == count // 2 else _name(words, number, chance)
        type_name = f"Type{kind}"
        days = chance.random() * DAYS + (90 if kind >= NODE_TYPES - 2 else 0)
        moment = now - timedelta(days=days)
        said = [words[int(chance.random() ** 3 * COMMON_WORDS)] for _ in range(12)]
        if number % 20 == 0:
            said.append(chance.choice(rare))
        properties = {
            "summary": f"A company of {' '.join(said[:5])} and {' '.join(said[9:])}.",
            "country": said[5].capitalize(),
            "employees": int(chance.random() * 90_000),
            "quote": f"It is said that {' '.join(said[5:9])} is of the {said[0]}.",
            "sourceUrl": f"https://example.org/{number // 20}",
        }
        node_id = ids.node_id(agent_id, type_name, name)
        yield node_id, agent_id, type_name, name, Jsonb(properties), moment, moment


def rare_words() -> list[str]:
    return _words()[COMMON_WORDS:]


def _name(words: list[str], number: int, chance: random.Random) -> str:
    """Of a few words that others have too, yet no two names are the same."""
    first = words[number % (COMMON_WORDS - 1)]
    second = words[(number // (COMMON_WORDS - 1) * 37 + number) % (COMMON_WORDS - 3)]
    forms = _FORMS.split()
    form = forms[int(chance.random() ** 2 * len(forms))]
    return f"{first.capitalize()} {second.capitalize()} {form}"


@lru_cache(maxsize=1)
def _words() -> list[str]:
    chance = random.Random(6)
    found: dict[str, None] = {}
    while len(found) < COMMON_WORDS + RARE_WORDS:
        found["".join(chance.choices(_SYLLABLES.split(), k=chance.randint(2, 4)))] = None
    return list(found)
