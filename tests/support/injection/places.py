"""Hostile text in all places from which prompts take data, and the tags that a request then has."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

from sqlalchemy import update

from shared.billing.resumable_call import ResumableCall
from shared.database.tables import GraphNode, NewsItem, Step
from shared.enums import NewsKind, NewsState, StepKind, StepStatus
from shared.graph.types import create_node_type
from shared.graph.validation import Validators, one_line
from shared.llm.messages import SECTIONS, ChatAnswer, ChatRequest
from shared.llm.provider import OnDelta, Provider
from shared.tools import Json
from shared.workflow import investigations
from shared.workflow.investigations import MissingData
from shared.workflow.iterations import database_time
from tests.support.graph.evidence_rows import make_evidence, make_source
from tests.support.injection.victim import Victim
from tests.support.table_rows import add

MARK: Final = "XPWN"
EVIL: Final = "evil.example"
DOCUMENT: Final = "https://news.example/1"
_CONFUSABLE: Final = str.maketrans("‹〈⟨ᐸ›〉⟩ᐳаеорсухіѕ", "<<<<>>>>aeopcyxis")
_SECTION: Final = re.compile(r"^<(?P<tag>[a-z_]+)>\n.*?\n</(?P=tag)>$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Hostile:
    text: str

    @classmethod
    def of(cls, text: str) -> "Hostile":
        tags = sorted(SECTIONS)
        closers, openers = (" ".join(f"<{sign}{tag}>" for tag in tags) for sign in ("/", ""))
        return cls(text.replace("{closers}", closers).replace("{openers}", openers))

    @property
    def name(self) -> str:
        """As the name of a node, which has no address."""
        return one_line(self.text.replace("://", ":"))[:200]


async def place_in_graph(victim: Victim, hostile: Hostile) -> None:
    """Into a node's name, properties and speakers, a type, an analysis, an investigation request and the title of news."""
    scope = victim.scope
    async with victim.database.transaction() as session:
        properties: Json = {"summary": hostile.text[:5_000], "capital": hostile.text[:300]}
        await session.execute(
            update(GraphNode)
            .where(GraphNode.id == victim.node_id)
            .values(name=hostile.name, properties=properties)
        )
        page = await make_source(session, scope, "https://news.example/2")
        await make_evidence(
            session, scope, page, properties, node_id=victim.node_id, speaker=hostile.name
        )
        analysis = await session.get_one(GraphNode, victim.analysis_id)
        words = {
            "summary": one_line(hostile.text),
            "content": f"{hostile.text} [node:{victim.node_id}].",
        }
        await session.execute(
            update(GraphNode)
            .where(GraphNode.id == victim.analysis_id)
            .values(properties={**analysis.properties, **words})
        )
        await create_node_type(
            session,
            scope,
            Validators(),
            name="Mine",
            description=hostile.text[:400],
            properties_schema={"type": "object", "properties": {"summary": {"type": "string"}}},
            example_properties={"summary": "A mine."},
            created_by="test",
        )
        step_id = uuid4()
        lacking = MissingData(
            one_line(hostile.text)[:300], hostile.text[:300], (hostile.text[:200],)
        )
        step = Step(
            id=step_id,
            iteration_id=victim.iteration_id,
            agent_id=victim.agent.id,
            kind=StepKind.INSIGHT,
            index=90,
            input={},
            status=StepStatus.COMPLETED,
        )
        await add(session, step)
        await investigations.create_request(
            victim.agent.id, victim.iteration_id, step_id, lacking
        ).execute(session)
        row = {"agent_id": victim.agent.id, "kind": NewsKind.DOCUMENT, "state": NewsState.OPEN}
        now = await database_time(session)
        await session.insert(
            NewsItem, **row, id=uuid4(), url=DOCUMENT, title=f"Lithium {hostile.text}", found_at=now
        )


@dataclass
class RecordingProvider:
    """Answers by another provider, and keeps the messages of each request."""

    provider: Provider
    requests: list[Sequence[Json]] = field(default_factory=list)

    async def complete(
        self, request: ChatRequest, in_flight: ResumableCall, on_delta: OnDelta | None = None
    ) -> ChatAnswer:
        self.requests.append([*request.messages])
        return await self.provider.complete(request, in_flight, on_delta)

    async def close(self) -> None:
        await self.provider.close()


def faults(messages: Sequence[Json]) -> Iterator[str]:
    """What hostile text has broken in a request: a tag that it opens or closes, or words of it outside of sections."""
    for message in messages:
        content = message.get("content") or ""
        if message["role"] == "system" and MARK in content:
            yield f"the system prompt has it: {content[:200]!r}"
        if message["role"] != "user":
            continue
        found = list(_tags(content))
        opened = [tag for is_end, tag in found if not is_end]
        expected = [(is_end, tag) for tag in opened for is_end in (False, True)]
        if found != expected or len(set(opened)) != len(opened):
            yield f"its tags are {found}"
        outside = _SECTION.sub("", content)
        if MARK in outside or EVIL in outside:
            yield f"outside of sections it has {outside[:300]!r}"


def _tags(content: str) -> Iterator[tuple[bool, str]]:
    """Whether each tag of a section closes it, and its name, whatever it looks like."""
    plain = unicodedata.normalize("NFKC", content.translate(_CONFUSABLE)).translate(_CONFUSABLE)
    visible = "".join(
        each for each in plain if unicodedata.category(each) not in ("Cf", "Mn") or each == "\n"
    )
    names = "|".join(sorted(SECTIONS, key=len, reverse=True))
    for match in re.finditer(rf"<\s*(/?)\s*({names})(?![\w-])", visible, re.IGNORECASE):
        yield bool(match[1]), match[2].lower()


def texts_of(value: Any) -> Iterator[str]:
    """All texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from texts_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_of(inner)
