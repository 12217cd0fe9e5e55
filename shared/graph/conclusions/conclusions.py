"""Writing conclusions: an analysis or advice must cite what it rests on, which a model then reads."""

from collections.abc import Callable, Collection, Iterable, Sequence, Set
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any, Final, Literal
from uuid import UUID

from shared.database import ids
from shared.database.statements import Batch, BoundQuery, CompiledStatement, PendingResult
from shared.database.transaction import Transaction
from shared.domains import DomainPreferences
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE, Role
from shared.graph import elements, upsert
from shared.graph.conclusions import citation_index, position_store, rules
from shared.graph.conclusions.basis import Basis, basis_query
from shared.graph.conclusions.citations import (
    MIN_ANALYSES,
    parse_citations,
    refuse_advice,
    refuse_analysis,
    without_citations,
)
from shared.graph.conclusions.commitments import (
    limit_confidence,
    parse_horizon,
    stored_date,
    validate_change,
    validate_confidence,
    validate_invalidation,
)
from shared.graph.conclusions.positions import Declaration
from shared.graph.conclusions.proofs import find_proof, hash_proof
from shared.graph.conclusions.readings import NOT_READ
from shared.graph.prompt_format import format_utc
from shared.graph.scope import GraphScope, retraction_lock_key_sql
from shared.graph.validation import normalize_name, one_line, refuse_large, refuse_unstorable
from shared.schemas.base import ForecastTerms, PositionResponse
from shared.tools import Json, ToolRefusalError
from shared.workflow.agent_clock import AgentClock

AnalysisKind = Literal["observation", "pattern"]

# Blocks retractions until the transaction ends, so that a conclusion rests on what was checked, and before any row of the
# graph is locked.
_SETTINGS: Final = CompiledStatement(f"""
select advice_from_one_analysis, barred_domains, archive_date, clock_timestamp() as real,
  pg_advisory_xact_lock_shared({retraction_lock_key_sql("of_agent")})
from agents where id = :of_agent
""")


@dataclass(frozen=True)
class Lookups:
    """What conclusions look up; see `prepare_lookups`."""

    clock: AgentClock
    basis: Basis
    allows_one_analysis: bool
    domains: DomainPreferences
    """Those that are barred."""
    existing: Set[UUID]
    """Those of the conclusions that exist."""


Review = Callable[[Sequence[str]], str]
"""Returns why a conclusion counts as not read, or "", given the names of the nodes that it is about, if it is advice. Raises
ToolRefusalError if a model found that it fails.
"""


def _no_review(_: Sequence[str]) -> str:
    return "nothing reads it"


async def add_analysis(
    transaction: Transaction,
    scope: GraphScope,
    *,
    name: str,
    kind: AnalysisKind,
    summary: str,
    content: str,
    confidence: float,
    horizon: str | None = None,
    review: Review = _no_review,
) -> UUID:
    """Add an AgentAnalysis and return its id.

    `confidence` is 0 to 1, and limited unless pages of two origins support it; `horizon` is a date or a duration
    from today. `review` is called when the rules have passed it, before it is written.

    Raises ToolRefusalError if an argument or a citation is invalid, the name is taken, or `review` raises it.
    """
    properties: Json = {"type": kind, "summary": one_line(summary), "content": content.strip()}
    lookups = await _look_up(transaction, scope, ANALYSIS_TYPE, name, properties)
    properties |= _forecast_terms(confidence, horizon, lookups.clock.today)
    analysis_id, _ = await _add_conclusion(
        transaction, scope, ANALYSIS_TYPE, name, properties, lookups, review
    )
    return analysis_id


async def add_advice(
    transaction: Transaction,
    scope: GraphScope,
    *,
    name: str,
    action: str,
    summary: str,
    content: str,
    confidence: float,
    horizon: str,
    invalidation: str,
    subject: Collection[UUID] = (),
    replaces: Collection[UUID] = (),
    change: str | None = None,
    review: Review = _no_review,
) -> UUID:
    """Add an AgentAdvice, put it into the owner's inbox and the agent's conversation, and return its id.

    `confidence` is 0 to 1, `horizon` a date or a duration from today, `invalidation` what would prove it wrong. `subject`
    are nodes that the cited analyses rest on, `replaces` positions on that or a related subject, and `change` says what
    changed since, or why advice on a related subject holds too, although it contradicts this.
    `review` is as in `add_analysis`. If it finds that the advice was not read, the first words say so to the owner.

    Raises ToolRefusalError if an argument or a citation is invalid, the name is taken, `review` raises it, a single analysis
    is cited and the agent's owner does not allow that, or advice on the subject stands and is not replaced.
    """
    properties: Json = {"action": action, "summary": one_line(summary), "content": content.strip()}
    open_positions = await position_store.load_open(transaction, scope)
    lookups = await _look_up(transaction, scope, ADVICE_TYPE, name, properties)
    properties |= _forecast_terms(confidence, horizon, lookups.clock.today)
    properties["invalidation"] = validate_invalidation(invalidation)
    if replaces or change:
        properties["change"] = validate_change(change)
    cited_ids = citation_index.cited_ids(properties)
    basis = await _load_basis(transaction, scope, cited_ids, lookups)
    declaration = Declaration(action, subject, replaces, properties.get("change", ""))
    nodes = basis.subjects(cited_ids)
    placed = declaration.place(
        normalize_name(name),
        properties["summary"],
        nodes,
        open_positions,
        lookups.clock.today,
        await position_store.load_ties(transaction, scope, open_positions, nodes),
    )
    about = [each.names[0] for each in nodes if each.id in placed.subject]
    advice_id, why_unread = await _add_conclusion(
        transaction, scope, ADVICE_TYPE, name, properties, lookups, review, about
    )
    title, is_read = f"{action}: {normalize_name(name)}", not why_unread
    await _notify_owner(
        transaction, scope, advice_id, title, properties, placed.note, is_read=is_read
    )
    await position_store.take(transaction, scope, advice_id, placed.subject, placed.ended)
    return advice_id


def _forecast_terms(confidence: float, horizon: str | None, today: date) -> Json:
    terms: Json = {"confidence": validate_confidence(confidence)}
    if horizon is not None:
        terms["horizon"] = parse_horizon(horizon, today).isoformat()
    return terms


async def _add_conclusion(
    transaction: Transaction,
    scope: GraphScope,
    type_name: str,
    name: str,
    properties: Json,
    lookups: Lookups,
    review: Review,
    about: Sequence[str] = (),
) -> tuple[UUID, str]:
    """Returns its id, and why it counts as not read."""
    name = normalize_name(name)
    refuse_unstorable(properties, type_name)
    refuse_large(properties, type_name)
    if not properties["summary"]:
        raise ToolRefusalError("summary: it is empty; state the conclusion in one sentence.")
    cited_ids = citation_index.cited_ids(properties)
    basis = await _load_basis(transaction, scope, cited_ids, lookups)
    min_analyses = 1 if lookups.allows_one_analysis else MIN_ANALYSES
    content, summary = properties["content"], properties["summary"]
    if refusal := (
        refuse_advice(content, summary, basis.cited, min_analyses)
        if type_name == ADVICE_TYPE
        else refuse_analysis(content, summary, basis.cited)
    ):
        raise ToolRefusalError(refusal.reason)
    others = (properties.get(key) or "" for key in ("invalidation", "change"))
    stated = " ".join([name, summary, content, *others])
    if unknown := basis.unknown_addresses(cited_ids, stated):
        raise ToolRefusalError(
            f"{', '.join(unknown)}: no page that this conclusion rests on has this address. Leave it out."
        )
    properties = {
        **properties,
        "confidence": limit_confidence(
            properties["confidence"], basis.origins(cited_ids, lookups.domains)
        ),
        "generated_at": format_utc(lookups.clock.now),
    }
    proof = find_proof(name, properties, basis.provable(cited_ids))
    accepted_by = rules.accepted_by(
        min_analyses if type_name == ADVICE_TYPE else None, hash_proof(proof)
    )
    node = elements.new_columns(
        scope, type_name=type_name, name=name, properties=properties, rules=accepted_by
    )
    node_id: UUID = node["id"]
    async with upsert.buffering(transaction, scope) as buffer:
        if node_id in lookups.existing or node_id in buffer.written_nodes:
            raise ToolRefusalError(
                f"An {type_name} with this name exists: [node:{node_id}]; add only what is new, "
                "under a new name."
            )
        why_unread = review(about)
        buffer.add_conclusion(
            node, sorted(set(cited_ids)), basis.current_ids(cited_ids), map(asdict, proof)
        )
    return node_id, why_unread


def prepare_lookups(
    batch: Batch, scope: GraphScope, type_name: str, texts: Iterable[tuple[str, str, str]]
) -> PendingResult[Lookups]:
    """Asks for what conclusions with these names, summaries and contents look up, under the lock that keeps retractions
    out.
    """
    cited_ids, named = set[UUID](), set[UUID]()
    for name, summary, content in texts:
        cited_ids.update(parse_citations(content.strip(), one_line(summary)).ids())
        with suppress(ToolRefusalError):
            named.add(ids.node_id(scope.agent_id, type_name, normalize_name(name)))
    settings = batch.add(BoundQuery(_SETTINGS, scope.sql_params, lambda rows: rows[0]))
    basis = batch.add(basis_query(scope, cited_ids))
    existing = batch.add(elements.existing_ids(scope, named))
    return batch.then(
        lambda: Lookups(
            AgentClock(settings.value.real, settings.value.archive_date),
            basis.value,
            settings.value.advice_from_one_analysis,
            DomainPreferences(barred=settings.value.barred_domains),
            existing.value,
        )
    )


async def _look_up(
    transaction: Transaction, scope: GraphScope, type_name: str, name: str, properties: Json
) -> Lookups:
    """What was looked up for all conclusions of an answer, or else for this one."""
    buffer = upsert.element_buffer(transaction)
    lookups: Lookups | None = None if buffer is None else buffer.lookups.get(Lookups)
    if lookups is not None:
        return lookups
    batch = Batch()
    texts = [(name, properties["summary"], properties["content"])]
    pending = prepare_lookups(batch, scope, type_name, texts)
    await batch.execute(transaction)
    return pending.value


async def _load_basis(
    transaction: Transaction, scope: GraphScope, cited_ids: Sequence[UUID], lookups: Lookups
) -> Basis:
    buffer = upsert.element_buffer(transaction)
    if buffer is None or buffer.written_nodes.keys().isdisjoint(cited_ids):
        return lookups.basis
    return await basis_query(scope, cited_ids).execute(transaction)


_INBOX_ITEM: Final = CompiledStatement("""
insert into inbox_items (id, owner_id, agent_id, node_id, title, summary)
values (:id, :owner_id, :agent_id, :node_id, :title, :summary)
""")
_MESSAGE: Final = CompiledStatement("""
with conversation as (
  insert into conversations (id, agent_id) values (:conversation_id, :agent_id)
  on conflict do nothing
)
insert into messages (id, conversation_id, role, node_id, content)
select :id, coalesce((select id from conversations where agent_id = :agent_id), :conversation_id), :role, :node_id, :content
""")


async def _notify_owner(
    transaction: Transaction,
    scope: GraphScope,
    advice_id: UUID,
    title: str,
    properties: Json,
    note: str,
    *,
    is_read: bool,
) -> None:
    summary = f"{'' if is_read else NOT_READ + ' '}{properties['summary']}{note}"
    item = {
        "id": ids.inbox_item_id(advice_id),
        "owner_id": scope.owner_id,
        "agent_id": scope.agent_id,
        "node_id": advice_id,
        "title": title,
        "summary": summary,
    }
    content = f"**{title}**\n\n{summary}\n\n{properties['content']}"
    batch = Batch()
    batch.add(BoundQuery(_INBOX_ITEM, item, lambda _: None))
    batch.add(message_query(scope, ids.message_id(advice_id), advice_id, content))
    await batch.execute(transaction)


def message_query(
    scope: GraphScope, message_id: UUID, advice_id: UUID, content: str
) -> BoundQuery[None]:
    """Adds a message about advice to the agent's conversation."""
    params = {
        "id": message_id,
        "conversation_id": ids.conversation_id(scope.agent_id),
        "agent_id": scope.agent_id,
        "role": Role.AGENT,
        "node_id": advice_id,
        "content": content,
    }
    return BoundQuery(_MESSAGE, params, lambda _: None)


def forecast_fields(
    properties: Json | None, day: date, position: PositionResponse | None = None
) -> dict[str, Any]:
    """The fields of ForecastTerms on the given day; older conclusions have only some of them. A confirmation of the
    `position` has refreshed confidence and horizon.
    """
    values = properties or {}
    horizon = stored_date(values.get("horizon")) if position is None else position.horizon
    change = values.get("change")
    terms = ForecastTerms(
        confidence=values.get("confidence") if position is None else position.confidence,
        horizon=horizon,
        invalidation=values.get("invalidation"),
        expired=horizon is not None and horizon < day,
        position=position,
        change=without_citations(change) if change else None,
    )
    return dict(terms)
