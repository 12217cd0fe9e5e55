"""Tools that write conclusions: analyses, and advice that rests on them."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Literal
from uuid import UUID

from pydantic import Field, create_model

from shared.database.transaction import Transaction
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph.conclusions import conclusions, reviews
from shared.graph.conclusions.commitments import MAX_CONFIDENCE_OF_ONE_ORIGIN
from shared.graph.conclusions.conclusions import AnalysisKind
from shared.graph.conclusions.readings import (
    NOT_READ_KEY,
    ConclusionReadings,
    draft_about,
    draft_of,
)
from shared.graph.conclusions.reviews import Review
from shared.graph.scope import GraphScope
from shared.graph.short_ids import ShortIds
from shared.graph.tools.references import written_names
from shared.graph.validation import one_line, refuse_unstorable
from shared.tools import Arguments, Json, StateTool, ToolRefusalError
from shared.urls import urls_in
from shared.workflow import investigations

_CONFIDENCE = (
    f"At most {MAX_CONFIDENCE_OF_ONE_ORIGIN} if all goes back to one site, agency or text."
)
_HORIZON = "a date (YYYY-MM-DD) or a time from today ('3 months')."


class AddAgentAnalysisNode(Arguments):
    name: str = Field(description="Short title, unlike that of any other analysis.")
    type: AnalysisKind = Field(
        description="observation: one notable fact or change. pattern: what repeats or connects across several nodes."
    )
    summary: str = Field(description="The conclusion in one sentence.")
    content: str = Field(
        description="Markdown. Cite in each sentence the nodes or edges behind it: [n17] or [e4]."
    )
    confidence: float = Field(ge=0, le=1, description=_CONFIDENCE)
    horizon: str | None = Field(None, description=f"Until when it holds: {_HORIZON}")


class AddAgentAdviceNode(Arguments):
    name: str = Field(description="Short title, unlike that of any other advice.")
    action: str = Field(description="What the owner should do.")
    summary: str = Field(description="The advice in one sentence, for the owner's inbox.")
    content: str = Field(
        description="Markdown. Cite in each sentence the analyses behind it: [n17]."
    )
    confidence: float = Field(ge=0, le=1, description=_CONFIDENCE)
    horizon: str = Field(description=f"Until when it holds: {_HORIZON}")
    invalidation: str = Field(
        description="An observation that would prove it wrong: of what, and by how much. 20 to 600 characters."
    )
    subject: list[str] | None = Field(
        None,
        description="Nodes that it is about, as the analyses cite them: [n17]. Default: those that `name` names.",
    )
    replaces: list[str] | None = Field(
        None, description="Ids of the standing advice on its subject, or on a related one."
    )
    change: str | None = Field(
        None,
        description="With `replaces`: what changed since, in one sentence. Beside contradicting advice: why both hold.",
    )


@cache
def advice_arguments(actions: tuple[tuple[str, str], ...]) -> type[AddAgentAdviceNode]:
    """Arguments whose action is one of these words, each given with what it means."""
    words: Any = Literal[tuple(word for word, _ in actions)]
    meanings = " ".join(f"{word}: {meaning}" for word, meaning in actions)
    return create_model(
        AddAgentAdviceNode.__name__,
        __base__=AddAgentAdviceNode,
        action=(words, Field(description=f"What the owner should do. {meanings}")),
    )


class ReviewAdvice(Arguments):
    advice: str = Field(description="Id of the standing advice.")
    review: Literal["confirms", "withdraws"] = Field(
        description="confirms: it still holds. withdraws: it no longer does."
    )
    because: str = Field(description="Why, in one sentence. Cite an analysis: [n17].")
    confidence: float | None = Field(None, ge=0, le=1, description="With confirms, if it changed.")
    horizon: str | None = Field(
        None, description=f"With confirms, until when it holds now: {_HORIZON}"
    )


def add_agent_analysis_node(
    scope: GraphScope,
    short_ids: ShortIds | None = None,
    readings: ConclusionReadings | None = None,
) -> StateTool[AddAgentAnalysisNode]:
    """Its texts may cite elements by `short_ids`. What fails the `readings` is refused."""
    readings = readings or ConclusionReadings(scope)

    async def run(transaction: Transaction, arguments: AddAgentAnalysisNode) -> Json:
        written, name = written_names(transaction), one_line(arguments.name)
        written.setdefault(name, None)
        summary = _resolved("summary", arguments.summary, short_ids)
        content = _resolved("content", arguments.content, short_ids)
        draft = draft_of(scope, ANALYSIS_TYPE, arguments.name, summary=summary, content=content)
        written[name] = analysis_id = await conclusions.add_analysis(
            transaction,
            scope,
            name=arguments.name,
            kind=arguments.type,
            summary=summary,
            content=content,
            confidence=arguments.confidence,
            horizon=arguments.horizon,
            review=lambda _: readings.check(draft),
        )
        return {"nodeId": str(analysis_id), **_unread(readings.add(draft))}

    return StateTool(
        "addAgentAnalysisNode",
        "Records an analysis, if each sentence follows from what it cites.",
        AddAgentAnalysisNode,
        run,
        is_previewed=True,
    )


def add_agent_advice_node(
    scope: GraphScope,
    actions: Mapping[str, str],
    short_ids: ShortIds | None = None,
    readings: ConclusionReadings | None = None,
) -> StateTool[AddAgentAdviceNode]:
    """`actions` are the agent's words, with what each means. For the rest see `add_agent_analysis_node`."""
    readings = readings or ConclusionReadings(scope)

    async def run(transaction: Transaction, arguments: AddAgentAdviceNode) -> Json:
        summary = _resolved("summary", arguments.summary, short_ids)
        content = _resolved("content", arguments.content, short_ids)
        change = arguments.change and _resolved("change", arguments.change, short_ids)
        draft = draft_of(
            scope,
            ADVICE_TYPE,
            arguments.name,
            summary=summary,
            content=content,
            invalidation=arguments.invalidation,
            change=change,
            action=arguments.action,
        )

        def review(about: Sequence[str]) -> str:
            nonlocal draft
            draft = draft_about(draft, about)
            return readings.check(draft)

        advice_id = await conclusions.add_advice(
            transaction,
            scope,
            name=arguments.name,
            action=arguments.action,
            summary=summary,
            content=content,
            confidence=arguments.confidence,
            horizon=arguments.horizon,
            invalidation=arguments.invalidation,
            subject=_subject_of(arguments.subject or (), short_ids),
            replaces=[_id_of("replaces", each, short_ids) for each in arguments.replaces or ()],
            change=change,
            review=review,
        )
        return {
            "nodeId": str(advice_id),
            "action": arguments.action,
            **_unread(readings.add(draft)),
        }

    return StateTool(
        "addAgentAdviceNode",
        "Advises the owner, if each sentence follows from the analyses that it cites and what these cite.",
        advice_arguments(tuple(actions.items())),
        run,
        is_previewed=True,
    )


def review_advice(
    scope: GraphScope,
    short_ids: ShortIds | None = None,
    readings: ConclusionReadings | None = None,
) -> StateTool[ReviewAdvice]:
    """See `add_agent_advice_node`."""
    readings = readings or ConclusionReadings(scope)

    async def run(transaction: Transaction, arguments: ReviewAdvice) -> Json:
        advice_id = _id_of("advice", arguments.advice, short_ids)
        await reviews.review_advice(
            transaction,
            scope,
            advice_id,
            Review(arguments.review),
            because=_resolved("because", arguments.because, short_ids),
            confidence=arguments.confidence,
            horizon=arguments.horizon,
            is_read=readings.check_review,
        )
        return {"advice": str(advice_id), "review": arguments.review}

    return StateTool(
        "reviewAdvice",
        "Confirms or withdraws standing advice. Tells the owner nothing new.",
        ReviewAdvice,
        run,
        is_previewed=True,
    )


def _unread(why: str) -> Json:
    return {NOT_READ_KEY: why} if why else {}


def with_ids(text: str, short_ids: ShortIds | None) -> str:
    """`text` with UUIDs in place of the short ids that it cites."""
    return text if short_ids is None else short_ids.expand(text)


def _resolved(argument: str, text: str, short_ids: ShortIds | None) -> str:
    """The same. Raises ToolRefusalError if the text cites a short id that was not shown."""
    unknown = [] if short_ids is None else short_ids.unknown(text)
    if unknown:
        listed = ", ".join(f"[{each}]" for each in unknown[:_MAX_LISTED])
        raise ToolRefusalError(
            f"{argument}: {listed} is not an id that you were given. Cite nodes and edges by the ids that are shown."
        )
    return with_ids(text, short_ids)


def _subject_of(references: Sequence[str], short_ids: ShortIds | None) -> list[UUID]:
    """The ids that the references mean, without those that mean none: without a subject, code finds it."""
    found = []
    for each in references:
        with suppress(ToolRefusalError):
            found.append(_id_of("subject", each, short_ids))
    return found


def _id_of(argument: str, reference: str, short_ids: ShortIds | None) -> UUID:
    """The id that `reference` means. Raises ToolRefusalError if it is none."""
    text = reference.strip()
    if short_ids is not None and (known := short_ids.find(text)) is not None:
        return known
    try:
        return UUID(text.strip("[]").removeprefix("node:"))
    except ValueError:
        raise ToolRefusalError(
            f"{argument}: {text[:40]!r} is no id that you were given. Give one as it is shown: [n17]."
        ) from None


_MAX_LISTED = 5
OBJECTIVE_CHARS = (15, 300)
MAX_REQUESTS_PER_STEP = 5


class RequestInvestigation(Arguments):
    objective: str = Field(description="One thing to find out: what, of whom, for when.")
    reasoning: str = Field(max_length=600, description="What cannot be concluded without it.")
    search_hints: list[str] = Field(max_length=5, description="Searches to begin with.")


def _outcome(request: investigations.Requested) -> Json:
    """The outcome of an earlier request for the same data; empty if it is open."""
    if request.is_open:
        return {}
    if request.answered_at is not None:
        ids = request.answered_with or {}
        cited = [f"[node:{each}]" for each in ids.get("nodes", ())]
        cited += [f"[edge:{each}]" for each in ids.get("edges", ())]
        shown = ", ".join(cited[:_MAX_LISTED]) or "the graph"
        part = " in part" if request.not_found else ""
        lacks = f"; not found: {request.not_found}" if request.not_found else ""
        return {"state": f"answered{part} on {request.answered_at:%Y-%m-%d}: see {shown}{lacks}"}
    said = f": {request.not_found}" if request.not_found else ""
    return {
        "state": f"not found on {request.not_found_at:%Y-%m-%d}, not searched for again now{said}"
    }


def request_investigation(scope: GraphScope) -> StateTool[RequestInvestigation]:
    async def run(transaction: Transaction, arguments: RequestInvestigation) -> Json:
        refuse_unstorable(arguments.model_dump(), "the request")
        objective = " ".join(arguments.objective.split())
        min_chars, max_chars = OBJECTIVE_CHARS
        if not min_chars <= len(objective) <= max_chars:
            raise ToolRefusalError(
                f"objective: {len(objective)} characters; use {min_chars} to {max_chars} to say what is missing, about "
                "whom or what and for which period, and request one thing at a time."
            )
        if urls_in(" ".join([objective, arguments.reasoning, *arguments.search_hints])):
            # The Researcher may read what its query names.
            raise ToolRefusalError(
                "Say what is missing without an address; the search finds pages."
            )
        assert scope.iteration_id is not None, "only steps of an iteration analyze"
        assert scope.step_id is not None, "only steps of an iteration analyze"
        if (
            await investigations.count_requests(scope.step_id).execute(transaction)
            >= MAX_REQUESTS_PER_STEP
        ):
            raise ToolRefusalError(
                f"{MAX_REQUESTS_PER_STEP} requests already exist, which is the limit for one insight. End now."
            )
        request = investigations.MissingData(
            objective, arguments.reasoning, tuple(arguments.search_hints)
        )
        stored = await investigations.request(
            scope.agent_id, scope.iteration_id, scope.step_id, request
        ).execute(transaction)
        return {"requestId": str(stored.id), "objective": objective, **_outcome(stored)}

    return StateTool(
        "requestInvestigation",
        "Requests data that the graph lacks and a conclusion needs. It is searched for.",
        RequestInvestigation,
        run,
    )
