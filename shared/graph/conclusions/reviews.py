"""Reviews of standing advice: it is confirmed, or withdrawn. Neither is new advice, so no inbox item is added."""

from collections.abc import Callable, Sequence
from datetime import date
from enum import StrEnum
from typing import Final
from uuid import UUID

from shared.database import ids
from shared.database.statements import Batch, CompiledStatement
from shared.database.transaction import Transaction
from shared.enums import ADVICE_TYPE
from shared.graph.conclusions import citation_index, position_store
from shared.graph.conclusions.citations import parse_citations, refuse_advice
from shared.graph.conclusions.commitments import (
    limit_confidence,
    parse_horizon,
    validate_confidence,
    validate_reason,
)
from shared.graph.conclusions.conclusions import Lookups, message_query, prepare_lookups
from shared.graph.conclusions.positions import Position, standing
from shared.graph.conclusions.proofs import unproven_figures
from shared.graph.conclusions.readings import Draft, draft_of_review
from shared.graph.scope import IS_OWNED_SQL, GraphScope
from shared.graph.validation import one_line
from shared.tools import ToolRefusalError


class Review(StrEnum):
    CONFIRMS = "confirms"
    WITHDRAWS = "withdraws"


_CONTENT: Final = CompiledStatement(
    f"select properties from graph_nodes where id = :advice and {IS_OWNED_SQL}"
)
# Unread again, so that the owner sees that it no longer stands.
_SHOW_AGAIN: Final = CompiledStatement("""
update inbox_items set read_at = null where id = :item and outcome is null and resolved_at is null
""")


async def review_advice(
    transaction: Transaction,
    scope: GraphScope,
    advice_id: UUID,
    review: Review,
    *,
    because: str,
    confidence: float | None = None,
    horizon: str | None = None,
    is_read: Callable[[Draft], bool] = lambda _: False,
) -> None:
    """Confirm or withdraw standing advice.

    A confirmation cites at least one analysis, and can change confidence and horizon; they are as in `add_advice`.
    `is_read` says whether a model has read `because` against what it cites and the advice, and raises if that fails. Without
    a reading it may have only figures that a quote of these says. Raises ToolRefusalError.
    """
    positions = await position_store.load_open(transaction, scope)
    because = validate_reason(because)
    batch = Batch()
    cited = parse_citations(because).ids()
    properties = await _CONTENT.row(transaction, {**scope.sql_params, "advice": advice_id})
    below = [] if properties is None else citation_index.cited_ids(properties[0])
    pending = prepare_lookups(
        batch, scope, ADVICE_TYPE, [("", because, " ".join(f"[node:{each}]" for each in below))]
    )
    await batch.execute(transaction)
    lookups = pending.value
    position = _find(positions, advice_id, lookups.clock.today)
    _refuse_reason(because, review, lookups)
    _refuse_unknown_addresses(because, [*below, *cited], lookups)
    decision = _decision_in_words(position, review, confidence, horizon)
    if not is_read(draft_of_review(advice_id, position.title, because, below, decision)):
        _refuse_unproven_figures(because, [*below, *cited], lookups)
    if review is Review.WITHDRAWS:
        await _withdraw(transaction, scope, position, positions, because)
        return
    origins = lookups.basis.origins([*below, *cited], lookups.domains)
    await position_store.confirm(
        transaction,
        scope,
        position,
        confidence=position.confidence
        if confidence is None
        else limit_confidence(validate_confidence(confidence), origins),
        horizon=position.horizon
        if horizon is None
        else parse_horizon(horizon, lookups.clock.today),
        reason=because,
    )


def _decision_in_words(
    position: Position, review: Review, confidence: float | None, horizon: str | None
) -> str:
    """For example: It confirms SELL “Ore falls”, until 2027-01-31, with confidence 0.9."""
    until = f", until {one_line(horizon)}" if horizon else ""
    sure = "" if confidence is None else f", with confidence {confidence:g}"
    return f"It {review} {position.action} “{position.title}”{until}{sure}."


def _find(positions: Sequence[Position], advice_id: UUID, today: date) -> Position:
    stands = standing(positions, today)
    found = next((each for each in stands if each.id == advice_id), None)
    if found is None:
        listed = ", ".join(f"“{each.title}” [node:{each.id}]" for each in stands) or "none"
        raise ToolRefusalError(f"advice: no advice of this id stands. These do: {listed}.")
    return found


def _refuse_reason(because: str, review: Review, lookups: Lookups) -> None:
    """Refuses a confirmation without an analysis, and citations of anything else."""
    if review is Review.WITHDRAWS and not parse_citations(because).citations:
        return
    if refused := refuse_advice(because, "", lookups.basis.cited, min_analyses=1):
        raise ToolRefusalError(f"because: {refused.reason.removeprefix('content ')}")


def _refuse_unknown_addresses(because: str, cited_ids: Sequence[UUID], lookups: Lookups) -> None:
    if unknown := lookups.basis.unknown_addresses(cited_ids, because):
        raise ToolRefusalError(
            f"because: {', '.join(unknown)}: no page that this rests on has this address. Leave it out."
        )


def _refuse_unproven_figures(because: str, cited_ids: Sequence[UUID], lookups: Lookups) -> None:
    if unproven := unproven_figures(because, lookups.basis.provable(cited_ids)):
        raise ToolRefusalError(
            f"because: nothing that this rests on says {', '.join(unproven)}. Leave it out."
        )


async def _withdraw(
    transaction: Transaction,
    scope: GraphScope,
    position: Position,
    positions: Sequence[Position],
    because: str,
) -> None:
    """Also ends what stood behind it since a merge: nothing takes its place."""
    subject = position.subject.keys()
    behind = [each.id for each in positions if each.overlaps(subject) and each.id != position.id]
    await position_store.end(
        transaction, scope, dict.fromkeys(behind, because), replaced_by=position.id
    )
    await position_store.end(transaction, scope, {position.id: because}, replaced_by=None)
    await _SHOW_AGAIN.run(transaction, {"item": ids.inbox_item_id(position.id)})
    message_id = ids.withdrawal_message_id(position.id)
    content = f"**Withdrawn: {position.action}: {position.title}**\n\n{because}"
    await message_query(scope, message_id, position.id, content).execute(transaction)
