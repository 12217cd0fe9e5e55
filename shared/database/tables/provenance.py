"""Tables: sources, evidence, retractions, positions."""

from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import (
    CheckConstraint,
    ForeignKey,
    Index,
    LargeBinary,
    SmallInteger,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import Mapped, declared_attr, mapped_column

from shared.database.tables.base import Base, Created, Id, Json, one_of
from shared.enums import (
    Entailment,
    NewsKind,
    NewsState,
    ProbeKind,
    SentenceKind,
    SentenceVerdict,
)


class Source(Base):
    """A web page as it was when it was fetched: changed text is another row, unchanged text is stored once."""

    __tablename__ = "sources"
    __table_args__ = (
        UniqueConstraint("agent_id", "url", "sha256"),
        Index("sources_agent_fetched_idx", "agent_id", "fetched_at"),
    )

    id: Mapped[Id]
    agent_id: Mapped[UUID] = mapped_column(ForeignKey("agents.id", ondelete="CASCADE"))
    url: Mapped[str]
    title: Mapped[str | None]
    published: Mapped[datetime | None]
    """The time of publication that the page or the search reports; midnight UTC if it is only a date."""
    fetched_at: Mapped[datetime]
    sha256: Mapped[bytes] = mapped_column(LargeBinary)
    """SHA-256 of the text in UTF-8; 32 bytes."""
    text: Mapped[str]
    """The extracted text, which may be less than the whole page."""
    reading: Mapped[Json | None]
    """The result of `shared.graph.provenance.page_reading` for the text. None for a page of an earlier release."""
    seal: Mapped[bytes] = mapped_column(LargeBinary)
    step_id: Mapped[UUID | None]
    """The step that fetched it first."""
    retracted_at: Mapped[datetime | None]
    retraction_reason: Mapped[str | None]


class PageProbe(Base):
    """The result of the last check of a page or feed, which the next check compares with.

    Written by the Observer.
    """

    __tablename__ = "page_probes"
    __table_args__ = (one_of("kind", ProbeKind),)

    agent_id: Mapped[UUID] = mapped_column(
        ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True
    )
    url: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]
    etag: Mapped[str | None]
    last_modified: Mapped[str | None]
    digest: Mapped[bytes | None] = mapped_column(LargeBinary)
    """SHA-256 of the content of a page; see `shared.fetch.pages`."""
    entries: Mapped[list[str] | None] = mapped_column(JSONB)
    """The ids of the entries of a feed. None until it was read once."""
    changes: Mapped[int] = mapped_column(server_default="0")
    """Checks in a row that found a change. From the third on, the time between two checks doubles with each."""
    failures: Mapped[int] = mapped_column(server_default="0")
    """Failed checks in a row. The time between two checks doubles with each."""
    error: Mapped[str | None]
    """Why the last check failed."""
    checked_at: Mapped[datetime]
    changed_at: Mapped[datetime | None]
    """When a change was last found; None: never."""


class NewsItem(Base):
    """A changed page or a new document, and its state. Written by the Observer.

    The transaction that stores the check which found it inserts it, so that it is found once.
    """

    __tablename__ = "news_items"
    __table_args__ = (
        one_of("kind", NewsKind),
        one_of("state", NewsState),
        Index("news_items_agent_idx", "agent_id", "found_at", "id"),
        Index("news_items_waiting_idx", "agent_id", postgresql_where=text("decided_at is null")),
    )

    id: Mapped[Id]
    agent_id: Mapped[UUID] = mapped_column(ForeignKey("agents.id", ondelete="CASCADE"))
    kind: Mapped[str]
    url: Mapped[str]
    title: Mapped[str | None]
    published: Mapped[datetime | None]
    """The time of publication that the feed states; None if it states none, and for a changed page."""
    state: Mapped[str]
    reason: Mapped[str | None]
    """Why it was skipped, or has expired."""
    offers: Mapped[int] = mapped_column(server_default="0")
    """Plans that it was offered to."""
    plans: Mapped[int] = mapped_column(server_default="0")
    """Plans that had a query to read it."""
    planned_in: Mapped[UUID | None]
    """The iteration of the last such plan."""
    found_at: Mapped[datetime]
    decided_at: Mapped[datetime | None]
    """Time at which it was read or skipped, or expired; None while it is open or planned."""


class Evidence(Base):
    """A span of a source, and what it says about one node or edge."""

    __tablename__ = "evidence"
    __table_args__ = (
        CheckConstraint("num_nonnulls(node_id, edge_id) = 1", name="of_one_thing"),
        CheckConstraint("0 <= first_byte and first_byte < end_byte", name="span"),
        Index("evidence_by_source_idx", "source_id", "id"),
        Index("evidence_node_as_of_idx", "node_id", "as_of"),
        Index("evidence_edge_as_of_idx", "edge_id", "as_of"),
        Index(
            "evidence_valid_to_idx",
            "agent_id",
            "valid_to",
            postgresql_where=text("valid_to is not null"),
        ),
    )

    id: Mapped[Id]
    agent_id: Mapped[UUID] = mapped_column(index=True)
    node_id: Mapped[UUID | None] = mapped_column(ForeignKey("graph_nodes.id", ondelete="CASCADE"))
    edge_id: Mapped[UUID | None] = mapped_column(ForeignKey("graph_edges.id", ondelete="CASCADE"))
    source_id: Mapped[UUID] = mapped_column(ForeignKey("sources.id", ondelete="CASCADE"))
    first_byte: Mapped[int]
    end_byte: Mapped[int]
    """End of the span (exclusive). Offsets are in bytes of the source's text in UTF-8."""
    quote_sha256: Mapped[bytes] = mapped_column(LargeBinary)
    """SHA-256 of the span's bytes."""
    claims: Mapped[Json]
    """Property values that it supports; empty if it supports only that the element exists."""
    valid_from: Mapped[datetime | None]
    valid_to: Mapped[datetime | None]
    as_of: Mapped[datetime]
    """Newer evidence supersedes older by this: when the page was published, or `valid_from` if that is earlier, or
    `claims.UNKNOWN_DATE` if no date is known.

    Never after `learned_at`.
    """
    learned_at: Mapped[datetime]
    rules: Mapped[int | None] = mapped_column(SmallInteger)
    """Version of the rules by which the claims follow from the quote, see `shared.graph.grounding`; None if unchecked."""
    speaker: Mapped[str | None]
    """Who says it, if the quote attributes it to someone, as the page names them; None if the page itself states it."""
    seal: Mapped[bytes] = mapped_column(LargeBinary)
    step_id: Mapped[UUID | None] = mapped_column(index=True)


class ValidityBoundary(Base):
    """A moment at which the validity of evidence begins or ends. Inserted by a trigger on `evidence`; all of an agent are
    made due by a trigger on `agents` when its archive date changes.
    """

    __tablename__ = "validity_boundaries"
    __table_args__ = (
        Index("validity_boundaries_agent_idx", "agent_id", "moment"),
        Index("validity_boundaries_due_idx", "due_at", postgresql_where=text("due_at is not null")),
    )

    evidence_id: Mapped[UUID] = mapped_column(
        ForeignKey("evidence.id", onupdate="CASCADE", ondelete="CASCADE"), primary_key=True
    )
    moment: Mapped[datetime] = mapped_column(primary_key=True)
    agent_id: Mapped[UUID]
    due_at: Mapped[datetime | None]
    """When the agent's now reaches this, the node or edge is projected again; None if that is done. `-infinity` if its
    present properties may follow from another now.
    """


class EntailmentVerdict(Base):
    """The verdict of a model on whether a piece of evidence supports one of its values. Written for what conclusions cite,
    and for a sample of the rest.
    """

    __tablename__ = "entailment_verdicts"
    __table_args__ = (
        one_of("verdict", Entailment),
        UniqueConstraint(
            "evidence_id",
            "property",
            name="entailment_verdicts_value_key",
            postgresql_nulls_not_distinct=True,
        ),
        Index("entailment_verdicts_agent_idx", "agent_id", "verdict"),
        Index(
            "entailment_verdicts_due_idx",
            "due_at",
            postgresql_where=text("due_at is not null"),
        ),
        Index(
            "entailment_verdicts_unapplied_idx",
            "created_at",
            "evidence_id",
            postgresql_where=text(
                "verdict <> 'supported' and (applied_at is null or due_at is not null)"
            ),
        ),
    )

    evidence_id: Mapped[UUID] = mapped_column(
        ForeignKey("evidence.id", ondelete="CASCADE", onupdate="CASCADE")
    )
    """A merge changes the id of evidence."""
    property: Mapped[str | None]
    """The value that it is on; empty: that the node or edge exists. None: all of them, in rows of earlier releases."""
    agent_id: Mapped[UUID]
    verdict: Mapped[str]
    reason: Mapped[str]
    """The reason that the model gives; empty if the quote supports the claim."""
    model: Mapped[str]
    prompt_version: Mapped[int | None] = mapped_column(SmallInteger)
    """None: of a release before 0.4."""
    call_id: Mapped[UUID]
    """The call of the ledger with the answer. No foreign key: the ledger expires."""
    step_id: Mapped[UUID]
    """The step that had it read."""
    created_at: Mapped[Created]
    due_at: Mapped[datetime | None]
    """Since when conclusions wait to be doubted because of this refusal; None when done."""
    applied_at: Mapped[datetime | None]
    """When the node or edge of a refusal was projected without the value. Services of earlier releases do not set it."""

    @declared_attr.directive
    @classmethod
    def __mapper_args__(cls) -> dict[str, Any]:
        return {"primary_key": ["evidence_id", "property"]}


class ConclusionVerdict(Base):
    """The verdict of a model on one sentence of a conclusion, against the claims that it cites.

    Written with the conclusion. One without a verdict on each of its sentences counts as unread.
    """

    __tablename__ = "conclusion_verdicts"
    __table_args__ = (
        one_of("kind", SentenceKind),
        one_of("verdict", SentenceVerdict),
        Index("conclusion_verdicts_agent_idx", "agent_id"),
    )

    conclusion_id: Mapped[UUID] = mapped_column(
        ForeignKey("graph_nodes.id", ondelete="CASCADE"), primary_key=True
    )
    number: Mapped[int] = mapped_column(SmallInteger, primary_key=True)
    """Of the sentence, from 1: its name, its summary, its content, its invalidation."""
    agent_id: Mapped[UUID]
    sentence: Mapped[str]
    """Without citations."""
    kind: Mapped[str]
    verdict: Mapped[str]
    reason: Mapped[str]
    """The reason that the model gives; empty if the sentence passes."""
    model: Mapped[str]
    prompt_version: Mapped[int] = mapped_column(SmallInteger)
    call_id: Mapped[UUID]
    """The call of the ledger with the answer. No foreign key: the ledger expires."""
    step_id: Mapped[UUID]
    created_at: Mapped[Created]


class ConclusionProof(Base):
    """One figure, date, name or relation that a conclusion states, with the sentence of a page that says it.

    Written with the conclusion and never changed. It names no row of `evidence`, which a merge may replace: what has become
    of it is looked up by page, place and value.
    """

    __tablename__ = "conclusion_proofs"
    __table_args__ = (
        CheckConstraint("kind in ('node', 'edge')", name="kind"),
        CheckConstraint("0 <= first_byte and first_byte < end_byte", name="span"),
        Index("conclusion_proofs_agent_idx", "agent_id"),
    )

    conclusion_id: Mapped[UUID] = mapped_column(
        ForeignKey("graph_nodes.id", ondelete="CASCADE"), primary_key=True
    )
    number: Mapped[int] = mapped_column(SmallInteger, primary_key=True)
    agent_id: Mapped[UUID]
    sentence: Mapped[int] = mapped_column(SmallInteger)
    """The first sentence of the conclusion that states it, numbered as in `conclusion_verdicts`."""
    stated: Mapped[str]
    """The words of that sentence that state it."""
    kind: Mapped[str]
    element_id: Mapped[UUID]
    """The node or edge that the claim is about, by its id at that time. No foreign key, as in citations."""
    type: Mapped[str]
    name: Mapped[str]
    """The name of the node, or the names of both ends of the edge, at that time."""
    property: Mapped[str | None]
    """None: the claim is that the node or edge exists."""
    value: Mapped[Any | None] = mapped_column(JSONB(none_as_null=True))
    """The value of the property."""
    source_id: Mapped[UUID] = mapped_column(
        ForeignKey("sources.id", ondelete="CASCADE"), index=True
    )
    first_byte: Mapped[int]
    end_byte: Mapped[int]
    """The sentence in the text of the page."""


class Retraction(Base):
    """A statement that a page or a site is not to be trusted: what was read there, and what is read there until it is
    restored. Written by the API.

    Which sources are excluded is in `sources.retracted_at`; this row records the reason, and what remains to be done.
    """

    __tablename__ = "retractions"
    __table_args__ = (
        Index("retractions_agent_idx", "agent_id", "created_at"),
        Index(
            "retractions_due_idx",
            "due_at",
            postgresql_where=text("due_at is not null"),
        ),
    )

    id: Mapped[Id]
    agent_id: Mapped[UUID] = mapped_column(ForeignKey("agents.id", ondelete="CASCADE"))
    url: Mapped[str]
    """The address of the page as the owner wrote it; the domain of a site."""
    source_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("sources.id", ondelete="CASCADE"), index=True
    )
    """The single version that an earlier release retracted; None if all versions are retracted."""
    covers: Mapped[str | None]
    """The pages that it covers: see `shared.graph.provenance.coverage`. None: no page that is read later."""
    reason: Mapped[str]
    created_at: Mapped[Created]
    restored_at: Mapped[datetime | None]
    due_at: Mapped[datetime | None]
    """Since when the propagation to dependent nodes and edges is pending; None when done."""


class RetractedSource(Base):
    """A source that a retraction covers, and how far the retraction has been propagated."""

    __tablename__ = "retracted_sources"

    retraction_id: Mapped[UUID] = mapped_column(
        ForeignKey("retractions.id", ondelete="CASCADE"), primary_key=True
    )
    source_id: Mapped[UUID] = mapped_column(
        ForeignKey("sources.id", ondelete="CASCADE"), primary_key=True, index=True
    )
    is_due: Mapped[bool]
    through: Mapped[UUID | None]
    """Evidence up to this id is done. None: concurrent writers have not been waited for yet."""


class Citation(Base):
    """A node or edge that a conclusion cites, for lookups in that direction."""

    __tablename__ = "citations"

    conclusion_id: Mapped[UUID] = mapped_column(
        ForeignKey("graph_nodes.id", ondelete="CASCADE"), primary_key=True
    )
    cited_id: Mapped[UUID] = mapped_column(primary_key=True, index=True)
    """A node or edge. No foreign key: the text still cites it after it was merged into another."""


class Doubt(Base):
    """A conclusion that depends on an element which changed because a source was retracted."""

    __tablename__ = "doubts"
    __table_args__ = (
        Index(
            "doubts_open_idx",
            "conclusion_id",
            "since",
            postgresql_where=text("resolved_at is null"),
        ),
    )

    id: Mapped[Id]
    conclusion_id: Mapped[UUID] = mapped_column(
        ForeignKey("graph_nodes.id", ondelete="CASCADE"), index=True
    )
    element_id: Mapped[UUID] = mapped_column(index=True)
    """The node or edge. No foreign key, as in citations."""
    source_id: Mapped[UUID] = mapped_column(
        ForeignKey("sources.id", ondelete="CASCADE"), index=True
    )
    since: Mapped[Created]
    evaluated_at: Mapped[datetime | None]
    """When it was last confirmed although the element had changed again; None: not since it was opened."""
    resolved_at: Mapped[datetime | None]


class Position(Base):
    """The state of a piece of advice: its subject, and whether it stands. Written by the Adviser.

    A node is in the subject of at most one position that has not ended: `shared.graph.conclusions.positions`.
    """

    __tablename__ = "positions"
    __table_args__ = (
        Index("positions_open_idx", "agent_id", postgresql_where=text("ended_at is null")),
        Index(
            "positions_replaced_by_idx",
            "replaced_by",
            postgresql_where=text("replaced_by is not null"),
        ),
    )

    advice_id: Mapped[UUID] = mapped_column(
        ForeignKey("graph_nodes.id", ondelete="CASCADE"), primary_key=True
    )
    agent_id: Mapped[UUID]
    subject: Mapped[list[UUID]] = mapped_column(ARRAY(Uuid(), dimensions=1))
    """The nodes that it is about, by the ids that they had. No foreign keys: a node can be merged into another."""
    confidence: Mapped[Decimal | None]
    """When it was given or last confirmed, 0 to 1, as is `horizon`."""
    horizon: Mapped[date | None]
    """The last day on which it holds; None for advice from before horizons were stored."""
    stated_at: Mapped[datetime]
    """When it was given, or last confirmed."""
    confirmations: Mapped[int] = mapped_column(server_default="0")
    ended_at: Mapped[datetime | None]
    """When it was replaced or withdrawn; None: neither."""
    replaced_by: Mapped[UUID | None]
    """The advice that replaces it; None if it stands or was withdrawn."""
    reason: Mapped[str | None]
    """What changed, or why it was withdrawn; before that, why it was last confirmed."""
