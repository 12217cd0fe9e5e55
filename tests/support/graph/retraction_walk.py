"""Random reading, retracting, restoring, barring and unbarring of pages, and what must hold after each step."""

from collections import defaultdict
from collections.abc import Awaitable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Final
from uuid import UUID

from sqlalchemy import select

from shared.database.tables import Agent, Evidence, GraphNode, RetractedSource, Retraction, Source
from shared.graph.provenance import coverage
from shared.graph.provenance.claims import Claim, is_dated_by_reading, project_properties
from shared.graph.provenance.evidence import EvidenceInput
from shared.tools import Json, ToolRefusalError
from tests.support.graph.retraction_graph import RetractionGraph

SITES: Final = ("one.example", "two.example")
HOSTS: Final = ("one.example", "news.one.example", "two.example")
PAGES: Final = [f"https://{host}/{number}" for host in HOSTS for number in range(2)]
NAMES: Final = ("Ghana", "Togo", "Benin", "Mali")
CAPITALS: Final = ("Accra", "Bamako")


async def _refusal(writing: Awaitable[object]) -> str:
    """Why it is refused; empty if it is not."""
    try:
        await writing
    except ToolRefusalError as error:
        return str(error)
    return ""


@dataclass
class RetractionWalk:
    graph: RetractionGraph
    chance: Random
    active: dict[str, UUID] = field(default_factory=dict)
    """The retractions that are not undone, by what they cover."""
    editions: int = 0
    conclusions: int = 0
    refused: int = 0
    written: int = 0

    async def step(self) -> None:
        actions = {
            self.read: 8,
            self.retract: 3,
            self.restore: 3,
            self.bar: 1,
            self.unbar: 1,
            self.conclude: 1,
        }
        [action] = self.chance.choices(list(actions), list(actions.values()))
        await action()
        await self.check_sources()
        if self.chance.random() < 0.6:
            await self.graph.work_off(at_once=self.chance.randint(1, 5))
            await self.check_graph()

    def spelling(self, url: str) -> str:
        scheme, rest = url.split("://")
        host, path = rest.split("/")
        scheme = self.chance.choice([scheme, "http", "HTTPS"])
        port = self.chance.choice(["", "", ":443"]) if scheme.lower() == "https" else ""
        ending = self.chance.choice(["", "", "/", "#top", "?utm_source=letter", "?gclid=1#x"])
        return f"{scheme}://{self.chance.choice([host, host.title()])}{port}/{path}{ending}"

    def covers(self, url: str) -> bool:
        return any(each in self.active for each in coverage.covering(url))

    async def read(self) -> None:
        """Read a page, mostly in a new version, and write a node from it."""
        url = self.spelling(self.chance.choice(PAGES))
        self.editions += self.chance.random() < 0.8
        name, capital = self.chance.choice(NAMES), self.chance.choice(CAPITALS)
        quote = f"{name} is a state, and its capital is {capital}."
        await self.graph.read_again(url, f"{quote} Edition {self.editions}.")
        refusal = await _refusal(
            self.graph.agent_graph.add_node(
                name, {"summary": "A state.", "capital": capital}, [EvidenceInput(url, quote)]
            )
        )
        assert bool(refusal) == self.covers(url), refusal or url
        assert not refusal or "retracted" in refusal or "barred" in refusal
        self.refused += bool(refusal)
        self.written += not refusal

    async def retract(self) -> None:
        """By an address in any spelling, or by the id of any version."""
        async with self.graph.agent_graph.database.transaction() as session:
            stored = (await session.execute(select(Source.id, Source.url))).all()
        if not stored:
            return
        source = self.chance.choice(sorted(stored, key=lambda row: str(row.id)))
        by_id = self.chance.random() < 0.3
        reference = str(source.id) if by_id else self.spelling(self._page_of(source.url))
        retraction_id = await self.graph.ask_retract(reference)
        covers = coverage.covering(source.url)[0]
        assert self.active.setdefault(covers, retraction_id) == retraction_id

    async def bar(self) -> None:
        domain = self.chance.choice([*SITES, "news.one.example"])
        retraction_id = await self.graph.ask_bar(domain)
        assert self.active.setdefault(coverage.of_site(domain), retraction_id) == retraction_id

    async def restore(self) -> None:
        await self._undo([each for each in self.active if coverage.site_covered(each) is None])

    async def unbar(self) -> None:
        await self._undo([each for each in self.active if coverage.site_covered(each) is not None])

    async def conclude(self) -> None:
        nodes = await self._nodes()
        standing = [node for node in nodes if node.unsupported_since is None]
        if standing:
            node = self.chance.choice(standing)
            self.conclusions += 1
            refusal = await _refusal(
                self.graph.analysis(f"Analysis {self.conclusions}", f"[node:{node.id}]")
            )
            # The retraction may not be propagated yet.
            assert not refusal or "retracted" in refusal, refusal

    async def end(self) -> None:
        """Restore all, which brings everything back."""
        while self.active:
            await self._undo(sorted(self.active))
        await self.graph.work_off(at_once=self.chance.randint(1, 5))
        await self.check_sources()
        await self.check_graph()
        state = await self.graph.state()
        assert (state.unsupported, state.doubted) == (frozenset(), frozenset())
        async with self.graph.agent_graph.database.transaction() as session:
            assert not list(
                await session.scalars(select(Source).where(Source.retracted_at.isnot(None)))
            )

    async def _undo(self, covered: list[str]) -> None:
        if covered:
            chosen = self.chance.choice(covered)
            await self.graph.ask_restore(self.active.pop(chosen))

    async def check_sources(self) -> None:
        """Each stored version is retracted exactly while its page or site is, and each site barred while it is."""
        async with self.graph.agent_graph.database.transaction() as session:
            sources = list(await session.scalars(select(Source)))
            links = await session.execute(
                select(RetractedSource.source_id, Retraction.covers)
                .join(Retraction, Retraction.id == RetractedSource.retraction_id)
                .where(Retraction.restored_at.is_(None))
            )
            linked: defaultdict[UUID, set[str | None]] = defaultdict(set)
            for source_id, covers in links:
                linked[source_id].add(covers)
            [barred] = await session.scalars(select(Agent.barred_domains))
        for source in sources:
            expected = {each for each in coverage.covering(source.url) if each in self.active}
            assert linked[source.id] == expected, source.url
            assert (source.retracted_at is not None) == bool(expected), source.url
        sites = {coverage.site_covered(each) for each in self.active} - {None}
        assert set(barred) == sites

    async def check_graph(self) -> None:
        """When all is propagated: no retracted page supports an element or value, and all others do."""
        claims: defaultdict[UUID, list[Claim]] = defaultdict(list)
        async with self.graph.agent_graph.database.transaction() as session:
            rows = await session.execute(
                select(Evidence, Source.retracted_at, Source.url, Source.published).join(
                    Source, Source.id == Evidence.source_id
                )
            )
            for row, retracted_at, url, published in rows:
                assert row.node_id is not None
                claims[row.node_id].append(
                    Claim(
                        *(row.id, row.claims, row.as_of, row.learned_at, retracted_at is not None),
                        url,
                        is_dated_by_reading(row.as_of, row.valid_from, published),
                        row.valid_from,
                        row.valid_to,
                    )
                )
        for node in await self._nodes():
            own = claims[node.id]
            if own:
                properties: Json = project_properties({}, own, datetime.now(UTC))
                assert node.properties == properties, node.name
                is_unsupported = all(claim.is_retracted for claim in own)
                assert (node.unsupported_since is not None) == is_unsupported, node.name

    async def _nodes(self) -> list[GraphNode]:
        async with self.graph.agent_graph.database.transaction() as session:
            countries = GraphNode.type == "Country"
            return list(
                await session.scalars(select(GraphNode).where(countries).order_by(GraphNode.id))
            )

    @staticmethod
    def _page_of(url: str) -> str:
        return f"https://{coverage.covering(url)[0]}"
