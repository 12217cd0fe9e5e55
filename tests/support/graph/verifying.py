"""What `vigil verify` finds in a graph, and graphs that grew."""

from datetime import timedelta
from itertools import pairwise
from random import Random
from typing import Final

from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.scope import GraphScope
from shared.graph.verification.verifier import MAX_PAGE_ROWS, check_page
from shared.schemas.provenance import FoundBreak
from tests.support.graph.proven import FETCHED, Proven

COUNTRIES: Final = ("Benin", "Niger", "Mali", "Chad", "Gabon", "Côte d’Ivoire")


FACT: Final = "{name} has {number} people, as of {day}, and its capital is {name} City. "


async def grow(proven: Proven, random: Random) -> None:
    """Some pages, each about several countries: what they say supersedes, agrees and is superseded."""
    for name in COUNTRIES:
        await proven.country(name)
    for number in range(8):
        # Each of them at least once, or some would stand there unproven.
        named = dict.fromkeys([COUNTRIES[number % len(COUNTRIES)], *random.sample(COUNTRIES, 3)])
        told = {name: random.randrange(10**6) for name in named}
        day = FETCHED + timedelta(days=random.randrange(-300, 300))
        url = f"https://d.example/{number}"
        text = "".join(
            FACT.format(name=name, number=people, day=f"{day:%Y-%m-%d}")
            for name, people in told.items()
        )
        await proven.page(url, text, published=random.choice([None, day]))
        for name, people in told.items():
            await proven.says(url, f"{name} has {people} people", name, {"population": people})
            if random.random() < 0.5:
                capital = {"capital": f"{name} City", "tags": ["a", {"b": None}]}
                valid = random.choice([None, day])
                await proven.says(
                    url, f"its capital is {name} City", name, capital, valid_from=valid
                )
    await connect(proven, random)


async def connect(proven: Proven, random: Random) -> None:
    for number, (one, other) in enumerate(pairwise(COUNTRIES)):
        await proven.border(f"border {number}", one, other)
        url = f"https://d.example/{number}"
        said = f"https://e.example/{number}"
        await proven.page(said, f"{one} borders {other}; see {url}.")
        claims = random.choice([{}, {"open": True}])
        await proven.says(said, f"{one} borders {other}", f"border {number}", claims)
    for number in range(4):
        name = f"Pattern {number}"
        cited = random.choice(COUNTRIES)
        await proven.analysis(name, f"It is so [node:{{{cited}}}], [edge:{{border {number}}}].")
        await proven.about(name, cited)
    await proven.advice("Sell", "As it is so [node:{Pattern 0}] [node:{Pattern 1}].")


async def breaks(session: AsyncSession, scope: GraphScope) -> list[FoundBreak]:
    found: list[FoundBreak] = []
    cursor: str | None = None
    while True:
        page = await check_page(session, scope, cursor=cursor, rows=MAX_PAGE_ROWS)
        found += page.breaks
        cursor = page.next
        if cursor is None:
            return found
