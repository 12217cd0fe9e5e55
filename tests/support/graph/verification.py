"""Lists the faults that `vigil verify` finds, and grows graphs."""

from datetime import timedelta
from itertools import pairwise
from random import Random
from typing import Final

from shared.database.engine import Database
from shared.database.transaction import Transaction
from shared.graph.scope import GraphScope
from shared.graph.verification.verifier import MAX_PAGE_ROWS, check_page
from shared.schemas.provenance import CheckedCounts, ElementFault
from tests.support.graph.graph_with_evidence import FETCHED, EvidenceGraph

COUNTRIES: Final = ("Benin", "Niger", "Mali", "Chad", "Gabon", "Côte d’Ivoire")


SPEAKERS: Final = (None, "Ada Roe", "Ben Poe")
FACT: Final = "{name} has {number} people, as of {day}, and its capital is {name} City. "


async def grow(evidence_graph: EvidenceGraph, random: Random) -> None:
    """Add pages about several countries, whose claims agree, supersede and are superseded."""
    for name in COUNTRIES:
        await evidence_graph.country(name)
    for number in range(8):
        # Each country at least once, so that none lacks evidence.
        names = dict.fromkeys([COUNTRIES[number % len(COUNTRIES)], *random.sample(COUNTRIES, 3)])
        people_by_name = {name: random.randrange(10**6) for name in names}
        day = FETCHED + timedelta(days=random.randrange(-300, 300))
        url = f"https://d.example/{number}"
        text = "".join(
            FACT.format(name=name, number=people, day=f"{day:%Y-%m-%d}")
            for name, people in people_by_name.items()
        )
        await evidence_graph.page(url, text, published=random.choice([None, day]))
        for name, people in people_by_name.items():
            await evidence_graph.says(
                url,
                f"{name} has {people} people",
                name,
                {"population": people},
                speaker=SPEAKERS[number % len(SPEAKERS)],
            )
            if random.random() < 0.5:
                capital = {"capital": f"{name} City", "tags": ["a", {"b": None}]}
                valid = random.choice([None, day])
                await evidence_graph.says(
                    url, f"its capital is {name} City", name, capital, valid_from=valid
                )
    await connect(evidence_graph, random)


async def connect(evidence_graph: EvidenceGraph, random: Random) -> None:
    for number, (one, other) in enumerate(pairwise(COUNTRIES)):
        await evidence_graph.border(f"border {number}", one, other)
        url = f"https://d.example/{number}"
        page_url = f"https://e.example/{number}"
        await evidence_graph.page(page_url, f"{one} borders {other}; see {url}.")
        claims = random.choice([{}, {"open": True}])
        await evidence_graph.says(page_url, f"{one} borders {other}", f"border {number}", claims)
    for number in range(4):
        name = f"Pattern {number}"
        country = random.choice(COUNTRIES)
        await evidence_graph.analysis(
            name, f"It is so [node:{{{country}}}], [edge:{{border {number}}}]."
        )
        await evidence_graph.about(name, country)
    await evidence_graph.advice("Sell", "As it is so [node:{Pattern 0}] [node:{Pattern 1}].")


async def breaks(session: Transaction, scope: GraphScope) -> list[ElementFault]:
    faults: list[ElementFault] = []
    cursor: str | None = None
    while True:
        page = await check_page(session, scope, cursor=cursor, rows=MAX_PAGE_ROWS)
        faults += page.breaks
        cursor = page.next
        if cursor is None:
            return faults


async def check_all(
    database: Database, scope: GraphScope, rows: int = MAX_PAGE_ROWS
) -> tuple[CheckedCounts, list[ElementFault]]:
    """Check the whole graph, each page in a snapshot of its own."""
    counts: dict[str, int] = {}
    faults: list[ElementFault] = []
    cursor: str | None = None
    while True:
        async with database.snapshot() as session:
            page = await check_page(session, scope, cursor=cursor, rows=rows)
        faults += page.breaks
        for name, count in page.checked.model_dump().items():
            counts[name] = counts.get(name, 0) + count
        if (cursor := page.next) is None:
            return CheckedCounts(**counts), faults
