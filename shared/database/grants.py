"""PostgreSQL privileges per service: which tables, columns and rows each role may read and write.

A role has no access to a table unless it is listed here, so new tables are denied to every service until they are
granted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE, PROMPTED_PHASES, InboxKind, Phase, StepKind

ALL: Final = ("*",)
"""All columns."""

Columns = tuple[str, ...]


@dataclass(frozen=True)
class RowFilter:
    """Rows whose `column` is one of `values`; with `negated`, all other rows."""

    column: str
    values: tuple[str, ...]
    negated: bool = False


@dataclass(frozen=True)
class NotNull:
    """Rows whose `column` is not null."""

    column: str


@dataclass(frozen=True)
class OlderThan:
    """Rows whose time in `column` is at least this long ago."""

    column: str
    days: float


@dataclass(frozen=True)
class AnyOf:
    """Rows that meet one of the conditions."""

    conditions: "tuple[RowCondition, ...]"


RowCondition = RowFilter | NotNull | OlderThan | AnyOf


@dataclass(frozen=True)
class Grant:
    """Privileges of one role on one table. Empty columns grant nothing of that kind.

    `selects` restricts the rows that may be read, and `inserts`, `updates` and `deletes` those that may be written; None
    restricts nothing.
    """

    select: Columns = ()
    insert: Columns = ()
    update: Columns = ()
    delete: bool = False
    selects: RowCondition | None = None
    inserts: RowCondition | None = None
    updates: RowCondition | None = None
    deletes: RowCondition | None = None


READ_ALL: Final = Grant(select=ALL)


def role_name(name: str) -> str:
    """The PostgreSQL role of a service."""
    return f"vigil_{name}"


GRAPH_READS: Final = {
    "graph_node_types": READ_ALL,
    "graph_edge_types": READ_ALL,
    "graph_nodes": READ_ALL,
    "graph_edges": READ_ALL,
    "graph_names": READ_ALL,
    "graph_merges": READ_ALL,
    "graph_redirects": READ_ALL,
    "sources": READ_ALL,
    "evidence": READ_ALL,
    "investigation_requests": READ_ALL,
    "doubts": READ_ALL,
    "entailment_verdicts": READ_ALL,
    "node_embeddings": READ_ALL,
    "graph_head": READ_ALL,
    "graph_journal": READ_ALL,
}
"""Tables of the agent's knowledge graph that every phase may read."""
_CONCLUSIONS: Final = (ANALYSIS_TYPE, ADVICE_TYPE)
_ELEMENT_UPDATES: Final = ("properties", "seal", "unsupported_since", "updated_at")


_NOTES_CITED: Final = Grant(ALL, update=("due_at",))
"""Notes that contradicted evidence is cited, so that the conclusion is doubted."""
CHECKS_EVIDENCE: Final = {"entailment_verdicts": replace(_NOTES_CITED, insert=ALL)}


def conclusion_grants(type_name: str) -> dict[str, Grant]:
    return {
        "graph_nodes": Grant(ALL, insert=ALL, inserts=RowFilter("type", (type_name,))),
        "citations": Grant(insert=ALL),
        "entailment_verdicts": _NOTES_CITED,
    }


TYPES: Final = {
    "graph_node_types": Grant(ALL, insert=ALL),
    "graph_edge_types": Grant(ALL, insert=ALL),
}
SYSTEM_TYPES: Final = {
    **TYPES,
    "graph_node_types": Grant(
        ALL,
        insert=ALL,
        update=("properties_schema", "example_properties"),
        updates=RowFilter("name", _CONCLUSIONS),
    ),
}
"""Also updates system types that an older version created."""
EDGES: Final = {"graph_edges": Grant(ALL, insert=ALL, update=_ELEMENT_UPDATES)}
_FACT_ROWS: Final = RowFilter("type", _CONCLUSIONS, negated=True)
_SWEEP_POSITION: Final = ("through_at", "through_id")
FACT_WRITES: Final = {
    **EDGES,
    "graph_nodes": Grant(
        ALL, insert=ALL, update=_ELEMENT_UPDATES, inserts=_FACT_ROWS, updates=_FACT_ROWS
    ),
    "graph_names": Grant(ALL, insert=ALL),
    "sources": Grant(ALL, insert=ALL),
    "evidence": Grant(ALL, insert=ALL),
    "node_embeddings": Grant(
        ALL, insert=ALL, update=("model", "text_sha256", "embedding", "updated_at")
    ),
    "embedding_progress": Grant(ALL, insert=ALL, update=("model", *_SWEEP_POSITION)),
}
"""Nodes, edges, sources and evidence that come from web pages."""
# Merges are made by users, through the API. Only facts are merged, never conclusions.
MERGE_WRITES: Final = {
    "graph_nodes": Grant(
        ALL,
        insert=ALL,
        update=_ELEMENT_UPDATES,
        delete=True,
        inserts=_FACT_ROWS,
        updates=_FACT_ROWS,
        deletes=_FACT_ROWS,
    ),
    "graph_edges": Grant(ALL, insert=ALL, update=_ELEMENT_UPDATES, delete=True),
    "graph_names": Grant(ALL, insert=ALL, update=("node_id",)),
    "graph_merges": Grant(ALL, insert=ALL, update=("undone_at",)),
    "graph_redirects": Grant(ALL, insert=ALL, delete=True),
    "graph_distinct_pairs": Grant(
        ALL, insert=ALL, update=("one_name", "other_name", "made_by", "made_at"), delete=True
    ),
    "embedding_progress": Grant(ALL, update=_SWEEP_POSITION),
    "evidence": Grant(ALL, insert=ALL, update=("id", "node_id", "edge_id", "seal"), delete=True),
    "entailment_verdicts": Grant(ALL, insert=ALL, update=("evidence_id", "due_at")),
}

# A retraction changes what is derived from the remaining evidence; the evidence itself stays unchanged.
RETRACTION_WRITES: Final = {
    "sources": Grant(ALL, update=("retracted_at", "retraction_reason")),
    "graph_nodes": Grant(ALL, update=_ELEMENT_UPDATES, updates=_FACT_ROWS),
    "graph_edges": Grant(ALL, update=_ELEMENT_UPDATES),
    "retractions": Grant(ALL, insert=ALL, update=("restored_at", "due_at")),
    "retracted_sources": Grant(ALL, insert=ALL, update=("is_due", "through")),
    "citations": Grant(ALL, insert=ALL),
    "doubts": Grant(ALL, insert=ALL, update=("since", "evaluated_at", "resolved_at")),
    "entailment_verdicts": _NOTES_CITED,
}


_TOKENS_AND_COST: Final = (
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "reasoning_tokens",
    "system_tokens",
    "tools_tokens",
    "context_tokens",
    "results_tokens",
    "cost_usd",
)
_SUMMED_OF_CALLS: Final = ("attempts", *_TOKENS_AND_COST, "assumed_usd")
_SUMMED_COLUMNS: Final = (
    *_SUMMED_OF_CALLS,
    "calls",
    "answered",
    "unpriced",
    "answered_unpriced",
)
_PASS_COLUMNS: Final = (
    "days",
    "max_bytes",
    "bytes",
    "last_rows",
    "all_rows",
    "started_at",
    "ended_at",
    "pruned_at",
    "oldest_at",
    "next_at",
)
_DEAD_LETTER_COLUMNS: Final = (
    "id",
    "service",
    "subject",
    "payload",
    "step_id",
    "code",
    "error",
    "attempts",
)
_DEAD_LETTER_UPDATES: Final = ("code", "error", "attempts", "stored_at")
_STEP_PROGRESS: Final = (
    "status",
    "result",
    "error",
    "attempts",
    "epoch",
    "retried_epoch",
    "lease_owner",
    "lease_until",
    "retry_at",
    "waiting_since",
    "waits",
    "started_at",
    "ended_at",
)
_REQUEST_TIMES: Final = ("requested_at", "first_requested_at")
_USER_REQUESTED_KINDS: Final = (StepKind.CONFIGURE, StepKind.CONVERSE)
"""Steps that a user requests."""
_CONFIGURATION_COLUMNS: Final = (
    "name",
    "mission",
    *(f"{phase}_system_prompt" for phase in PROMPTED_PHASES),
    "prompts_version",
    "status",
    "fault",
    "updated_at",
)
"""Columns that are derived from an agent's mission."""
_RESERVATION_COLUMNS: Final = ("reserved_usd", "reserved_on", "assumed_usd")
_DAY: Final = ("scope", "day")
_RESERVED_TOTALS: Final = ("reserved_usd", "reserved_calls")
_SPENT_TOTALS: Final = ("spent_usd", "spent_calls")

# Services that pay cannot set caps. If a cap is reached, they suspend the agent and write a notice to its owner's inbox.
_PAYMENTS: Final = {
    "budget_days": Grant(
        ALL, insert=(*_DAY, *_RESERVED_TOTALS), update=(*_RESERVED_TOTALS, *_SPENT_TOTALS)
    ),
    "installation_budget": READ_ALL,
    "provider_limits": Grant(ALL, insert=ALL, update=("name", "version", "state", "updated_at")),
    "agents": Grant(ALL, update=("suspended_until",)),
    "inbox_items": Grant(insert=ALL, inserts=RowFilter("kind", (InboxKind.NOTICE,))),
}
_TRIAGE: Final = ("outcome", "useful", "feedback", "answered_at", "snoozed_until", "resolved_at")
"""What an owner does with inbox items, through the API; and that a notice is no longer so."""
_FEEDBACK_COLUMNS: Final = (
    "id",
    "agent_id",
    "kind",
    "title",
    "outcome",
    "useful",
    "feedback",
    "answered_at",
)
"""What phases are shown of the owner's answers to advice."""
# What an abandoned step has reserved counts as spent.
_ABANDONED_STEP_COSTS: Final = {
    # A write-off inserts no row, but the part of its statement that changes budgets is that of payments, which do.
    "budget_days": Grant(
        ALL, insert=(*_DAY, *_RESERVED_TOTALS), update=(*_RESERVED_TOTALS, *_SPENT_TOTALS)
    ),
    "calls": Grant(
        (
            "id",
            "agent_id",
            "iteration_id",
            "step_id",
            "cost_usd",
            "answered_at",
            "progressed_at",
            *_RESERVATION_COLUMNS,
        ),
        update=_RESERVATION_COLUMNS,
    ),
}

_MEASURED: Final = {
    "budget_days": READ_ALL,
    "installation_budget": READ_ALL,
    "deliveries": Grant(("status", "created_at")),
    "provider_limits": READ_ALL,
}
"""What the scheduler reads for metrics of the installation, besides its own tables."""


def _dead_letters(service: str) -> dict[str, Grant]:
    """Writes its own dead letters. Cannot read them or request a retry."""
    own_rows = RowFilter("service", (service,))
    return {
        "dead_letters": Grant(
            ("id",), _DEAD_LETTER_COLUMNS, _DEAD_LETTER_UPDATES, inserts=own_rows, updates=own_rows
        )
    }


def _old(column: str) -> OlderThan:
    """The least age of what may be deleted, whatever the settings."""
    return OlderThan(column, MIN_RETENTION_DAYS)


MIN_RETENTION_DAYS: Final = 2.0
"""A budget of a phase counts the calls of today, and an iteration may run through midnight."""
# Of graphs it reads only what shows that a page is cited. Where rows are restricted for other services, it may only write
# old ones; policies on the other tables would cost the services that write to them.
_PRUNES: Final = {
    "dead_letters": replace(
        _dead_letters("scheduler")["dead_letters"],
        select=ALL,
        delete=True,
        deletes=AnyOf((NotNull("retry_requested_at"), _old("stored_at"))),
    ),
    "calls": Grant(
        (
            *("id", "agent_id", "iteration_id", "step_id", "kind", "phase", "model"),
            *("started_at", "answered_at", "reserved_on", *_SUMMED_OF_CALLS),
        ),
        update=("answer", "events", "failures"),
        delete=True,
        updates=_old("started_at"),
        deletes=_old("started_at"),
    ),
    "llm_interactions": Grant(
        ("id", "agent_id", "iteration_id", "step_id", "context_sha256", "created_at"),
        update=("system_prompt", "request", "message", "context_sha256"),
        delete=True,
        updates=_old("created_at"),
        deletes=_old("created_at"),
    ),
    "contexts": Grant(("agent_id", "sha256", "base_sha256", "depth", "created_at"), delete=True),
    "pinned_contexts": Grant(ALL, delete=True),
    "sources": Grant(("id", "agent_id", "fetched_at", "retracted_at"), delete=True),
    "evidence": Grant(("source_id",)),
    "doubts": Grant(("source_id",)),
    "retracted_sources": Grant(("source_id",)),
    "retractions": Grant(("source_id",)),
    "graph_merges": Grant(("agent_id", "journal", "undone_at")),
    "deliveries": Grant(
        ("id", "inbox_item_id", "status", "created_at", "ended_at", "retry_requested_at"),
        delete=True,
    ),
    "inbox_items": Grant(
        ("id", "kind", "created_at", "dispatched_at", "snoozed_until"),
        delete=True,
        deletes=RowFilter("kind", (InboxKind.NOTICE,)),
    ),
    "investigation_requests": Grant(
        ("id", "created_at", "answered_at", "not_found_at", "reopened_at", "dropped_at"),
        delete=True,
    ),
    "news_items": Grant(("agent_id", "decided_at"), delete=True),
    "call_days": Grant(ALL, insert=ALL, update=_SUMMED_COLUMNS),
    "pruned_iterations": Grant(
        ALL, insert=ALL, update=("numbers", "transcripts", "calls", "updated_at")
    ),
    "kept_insights": Grant(ALL, insert=ALL),
    "retention": Grant(ALL, insert=ALL, update=_PASS_COLUMNS),
}
"""Deletes what is old, and notes what it has deleted. It reads no texts."""


def _steps(
    *kinds: StepKind, creates: Columns = (), requests_more: bool = False
) -> dict[str, Grant]:
    """Updates steps of its own kinds. May insert steps of kinds `creates`, and with `requests_more` request the next step
    of its own kinds.
    """
    inserts = RowFilter("kind", creates) if creates else None
    own_kinds = RowFilter("kind", kinds)
    updates = (*_STEP_PROGRESS, *(_REQUEST_TIMES if requests_more else ()))
    return {
        "steps": Grant(ALL, ALL if creates else (), updates, inserts=inserts, updates=own_kinds)
    }


_NO_CONVERSATIONS: Final = RowFilter("phase", (Phase.CONVERSATION,), negated=True)


def _calls_model(*phases: Phase, reads: RowFilter | None = None) -> dict[str, Grant]:
    """Calls the model in its own phases, and reads and writes the phase runs and calls of these; `reads` are others that it
    reads. Contexts have no phase: they show the graph alone, which every phase reads.
    """
    own_phases = RowFilter("phase", tuple(phases))
    read_phases = reads or own_phases
    run_start = ("model", "system_prompt", "request", "message", "context_sha256")
    run_progress = (*run_start, "completed_at")
    call_progress = (
        "sent_at",
        "received_chars",
        "progressed_at",
        "provider_ref",
        "answer",
        *_TOKENS_AND_COST,
        "events",
        "answered_at",
        "attempts",
        "failures",
        *_RESERVATION_COLUMNS,
    )
    return {
        **_PAYMENTS,
        "llm_interactions": Grant(
            ALL, ALL, run_progress, selects=read_phases, inserts=own_phases, updates=own_phases
        ),
        "calls": Grant(
            ALL, ALL, call_progress, selects=read_phases, inserts=own_phases, updates=own_phases
        ),
    }


_CONTEXTS: Final = {"contexts": Grant(ALL, insert=ALL)}
"""The phases of this service are given a context."""


def _pins_contexts(kind: StepKind) -> dict[str, Grant]:
    """Pins contexts for steps of this kind."""
    own_rows = RowFilter("kind", (kind,))
    return {**_CONTEXTS, "pinned_contexts": Grant(ALL, insert=ALL, inserts=own_rows)}


_NUMBERS: Final = {"element_numbers": Grant(ALL, insert=ALL)}
"""The phases of this service show elements by short ids."""
_AGENT_READS: Final = {"agents": READ_ALL, "iterations": READ_ALL, **GRAPH_READS}
"""What every phase reads of its agent."""


_CREDENTIAL_TABLES: Final = {
    "users": Grant(
        ALL, insert=ALL, update=("operator", "disabled_at", "signed_in_at"), delete=True
    ),
    "api_tokens": Grant(ALL, insert=ALL, update=("last_used_at",), delete=True),
    "sign_in_links": Grant(ALL, insert=ALL, delete=True),
    "sessions": Grant(ALL, insert=ALL, update=("last_used_at",), delete=True),
}
"""Only the API may access these tables, so that no other service sees a credential."""
_DELIVERY_RESULT: Final = (
    "status",
    "attempts",
    "next_attempt_at",
    "give_up_at",
    "lease_owner",
    "epoch",
    "status_code",
    "error",
    "ended_at",
    "retry_requested_at",
)
_DESTINATION_STATE: Final = ("active", "stop_reason")
_DESTINATION_WRITES: Final = {
    "destinations": Grant(ALL, insert=ALL, update=_DESTINATION_STATE, delete=True),
    # A secret is shown once, on creation: the API cannot read it again.
    "webhook_secrets": Grant(
        ("id", "destination_id", "created_at", "expires_at"),
        insert=ALL,
        update=("expires_at",),
        delete=True,
    ),
    # Test deliveries, which have no inbox item, and retry requests.
    "deliveries": Grant(
        ALL, insert=("id", "destination_id", "give_up_at"), update=("retry_requested_at",)
    ),
}

_PROBE_RESULT: Final = (
    "kind",
    "etag",
    "last_modified",
    "digest",
    "entries",
    "changes",
    "failures",
    "error",
    "checked_at",
    "changed_at",
)

_REOPENED_COLUMNS: Final = (
    "iteration_id",
    "iteration_number",
    "step_id",
    "reasoning",
    "search_hints",
    "dropped_at",
    "answered_at",
    "answered_by",
    "answered_with",
    "reopened_at",
)

GRANTS: Final[Mapping[str, Mapping[str, Grant]]] = {
    "scheduler": {
        "agents": Grant(ALL, update=("next_run_at", "run_requested_at", "iterations_started")),
        "iterations": Grant(
            ALL,
            insert=ALL,
            update=(
                "end_published_at",
                "end_republish_count",
                "end_republished_at",
                "transcripts_deleted_at",
            ),
            delete=True,
        ),
        "steps": Grant(
            ALL,
            insert=ALL,
            update=("requested_at", "republish_count"),
            inserts=RowFilter("kind", (StepKind.OBSERVE,)),
        ),
        **_MEASURED,
        **_PRUNES,
    },
    "observer": {
        **_AGENT_READS,
        **SYSTEM_TYPES,
        "memories": READ_ALL,
        "kept_insights": READ_ALL,
        "investigation_requests": Grant(ALL, update=("dropped_at",)),
        "iterations": Grant(ALL, update=("observer_plan", "stage", "stage_changed_at")),
        **_steps(StepKind.OBSERVE, creates=(StepKind.QUERY, StepKind.INSIGHT)),
        # It measures how many bytes a token has, from calls of all phases.
        **_calls_model(Phase.OBSERVER, reads=_NO_CONVERSATIONS),
        **_CONTEXTS,
        "inbox_items": replace(_PAYMENTS["inbox_items"], select=_FEEDBACK_COLUMNS),
        "page_probes": Grant(ALL, insert=ALL, update=_PROBE_RESULT),
        "news_items": Grant(
            ALL,
            insert=ALL,
            update=("state", "reason", "offers", "plans", "planned_in", "decided_at"),
        ),
        # An iteration that works ends the growth of the interval.
        "agents": Grant(ALL, update=("suspended_until", "next_run_at", "bytes_per_token")),
        **_dead_letters("observer"),
    },
    "researcher": {
        **_AGENT_READS,
        **TYPES,
        **FACT_WRITES,
        "investigation_requests": Grant(
            ALL, update=("answered_at", "answered_by", "answered_with", "not_found_at", "not_found")
        ),
        **_steps(StepKind.QUERY),
        "page_probes": READ_ALL,
        "news_items": READ_ALL,
        **CHECKS_EVIDENCE,
        **_calls_model(
            Phase.KNOWLEDGE_ACQUISITION, Phase.GRAPH_CONSTRUCTION, Phase.ENTAILMENT_CHECK
        ),
        **_pins_contexts(StepKind.QUERY),
        **_NUMBERS,
        **_dead_letters("researcher"),
    },
    "aggregator": {
        # Whether and how often it may start another round for missing data; and when an agent that does not work runs next.
        "agents": Grant(
            (
                "id",
                "owner_id",
                "name",
                "interval_seconds",
                "next_run_at",
                "feedback_rounds",
                "suspended_until",
            ),
            update=("next_run_at",),
        ),
        "graph_nodes": Grant(("agent_id",)),
        "inbox_items": Grant(
            ("agent_id", "cause", "read_at", "resolved_at"),
            insert=ALL,
            update=("read_at", "resolved_at"),
            inserts=RowFilter("kind", (InboxKind.NOTICE,)),
        ),
        "investigation_requests": READ_ALL,
        "iterations": Grant(
            ALL,
            update=(
                "stage",
                "stage_changed_at",
                "deadline_at",
                "status",
                "errors",
                "ended_at",
                "graph_root",
            ),
        ),
        "graph_head": READ_ALL,
        "steps": Grant(
            ALL,
            insert=ALL,
            update=(
                "status",
                "error",
                "epoch",
                "lease_owner",
                "lease_until",
                "requested_at",
                "first_requested_at",
                "ended_at",
            ),
            inserts=RowFilter("kind", (StepKind.QUERY, StepKind.INSIGHT, StepKind.ADVISE)),
        ),
        **_ABANDONED_STEP_COSTS,
        **_dead_letters("aggregator"),
    },
    "analyzer": {
        **_AGENT_READS,
        **EDGES,
        **conclusion_grants(ANALYSIS_TYPE),
        # A repeated request may open the existing one again.
        "investigation_requests": Grant(ALL, insert=ALL, update=_REOPENED_COLUMNS),
        **_steps(StepKind.INSIGHT),
        **_calls_model(Phase.ANALYSIS_GENERATION),
        "inbox_items": replace(_PAYMENTS["inbox_items"], select=_FEEDBACK_COLUMNS),
        **_pins_contexts(StepKind.INSIGHT),
        **_NUMBERS,
        **_dead_letters("analyzer"),
    },
    "adviser": {
        **_AGENT_READS,
        "memories": READ_ALL,
        **conclusion_grants(ADVICE_TYPE),
        # What its advice rests on is checked.
        "citations": Grant(ALL, insert=ALL),
        "conversations": Grant(ALL, insert=ALL),
        "messages": Grant(insert=ALL),
        **_steps(StepKind.ADVISE),
        **_CONTEXTS,
        **_NUMBERS,
        **CHECKS_EVIDENCE,
        **_calls_model(Phase.ADVICE_GENERATION, Phase.ENTAILMENT_CHECK),
        "inbox_items": Grant(
            _FEEDBACK_COLUMNS,
            insert=ALL,
            inserts=RowFilter("kind", (InboxKind.ADVICE, InboxKind.NOTICE)),
        ),
        **_dead_letters("adviser"),
    },
    "assistant": {
        **_AGENT_READS,
        **SYSTEM_TYPES,
        "prompt_versions": Grant(ALL, insert=ALL),
        **_steps(StepKind.CONFIGURE, StepKind.CONVERSE, requests_more=True),
        "conversations": Grant(ALL, update=("summary", "summarized_turns")),
        "messages": Grant(
            ALL, update=("content", "draft", "tool_uses", "citations", "completed_at")
        ),
        "memories": Grant(ALL, insert=ALL, update=("message_id", "forgotten_at")),
        **_CONTEXTS,
        **_NUMBERS,
        **_calls_model(Phase.CONFIGURATION, Phase.CONVERSATION),
        "agents": Grant(ALL, update=(*_CONFIGURATION_COLUMNS, "suspended_until", "next_run_at")),
        **_dead_letters("assistant"),
    },
    "notifier": {
        "inbox_items": Grant(ALL, update=("dispatched_at",)),
        "agents": Grant(("id", "name", "owner_id")),
        # The names of what an item cites.
        "graph_nodes": READ_ALL,
        "graph_edges": READ_ALL,
        "graph_redirects": READ_ALL,
        "destinations": Grant(ALL, update=_DESTINATION_STATE),
        "webhook_secrets": READ_ALL,
        "deliveries": Grant(ALL, insert=ALL, update=_DELIVERY_RESULT),
        **_dead_letters("notifier"),
    },
    "api": {
        **_AGENT_READS,
        **TYPES,
        **RETRACTION_WRITES,
        **MERGE_WRITES,
        **_CREDENTIAL_TABLES,
        **_DESTINATION_WRITES,
        "agents": Grant(ALL, insert=ALL, update=ALL, delete=True),
        "prompt_versions": Grant(ALL, insert=ALL),
        # Deleting an agent locks its iterations, and for row locks PostgreSQL requires an UPDATE privilege.
        "iterations": Grant(ALL, update=("why",)),
        "steps": Grant(
            ALL, ALL, ("retry_requested_at",), inserts=RowFilter("kind", _USER_REQUESTED_KINDS)
        ),
        "page_probes": READ_ALL,
        "calls": READ_ALL,
        "call_days": READ_ALL,
        "pruned_iterations": READ_ALL,
        "retention": READ_ALL,
        "llm_interactions": READ_ALL,
        "contexts": READ_ALL,
        "inbox_items": Grant(
            ALL,
            insert=ALL,
            update=("read_at", *_TRIAGE),
            inserts=RowFilter("kind", (InboxKind.NOTICE,)),
        ),
        "conversations": Grant(ALL, insert=ALL, update=("turns",)),
        "messages": Grant(ALL, insert=ALL),
        "memories": Grant(ALL, insert=ALL, update=("message_id", "forgotten_at")),
        "dead_letters": Grant(ALL, update=("retry_requested_at",), delete=True),
        # Old keys are locked before they are deleted, which requires the same privilege.
        "idempotency_keys": Grant(ALL, insert=ALL, update=("created_at",), delete=True),
        "installation_budget": Grant(ALL, insert=ALL, update=ALL),
        "provider_limits": READ_ALL,
        # Deleting an agent deletes its budget days; what was reserved for it then counts as spent.
        "budget_days": Grant(ALL, update=(*_RESERVED_TOTALS, *_SPENT_TOTALS), delete=True),
    },
    # The operator of the installation sees progress and failures, not the data of agents.
    "operator": {
        "agents": Grant(("id", "name", "active", "next_run_at", "iterations_started")),
        "iterations": READ_ALL,
        "steps": READ_ALL,
        "dead_letters": READ_ALL,
        "provider_limits": READ_ALL,
    },
}
"""By service. The service's role is `role_name(service)`."""
