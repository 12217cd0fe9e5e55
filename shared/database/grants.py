"""Privileges in PostgreSQL: each service may write its own tables and columns, nothing else.

A role is asked for a table by name here, or has nothing of it: tables that are added later are denied to everybody
until they are named.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE, PROMPTED, InboxKind, Phase, StepKind

ALL: Final = ("*",)
"""Every column."""

Columns = tuple[str, ...]


@dataclass(frozen=True)
class Rows:
    """The rows whose `column` holds one of `values`, or, where `but`, none of them."""

    column: str
    values: tuple[str, ...]
    but: bool = False


@dataclass(frozen=True)
class Filled:
    """The rows whose `column` holds anything."""

    column: str


@dataclass(frozen=True)
class Grant:
    """What one role may do with one table. Empty columns: nothing of that kind.

    `inserts`, `updates` and `deletes` bound the rows that may be written; None bounds nothing.
    """

    select: Columns = ()
    insert: Columns = ()
    update: Columns = ()
    delete: bool = False
    inserts: Rows | None = None
    updates: Rows | None = None
    deletes: Rows | Filled | None = None


READ: Final = Grant(select=ALL)


def role_of(name: str) -> str:
    """The Postgres role of an actor."""
    return f"vigil_{name}"


SEEN: Final = {
    "graph_node_types": READ,
    "graph_edge_types": READ,
    "graph_nodes": READ,
    "graph_edges": READ,
    "graph_names": READ,
    "graph_merges": READ,
    "graph_moves": READ,
    "sources": READ,
    "evidence": READ,
    "investigation_requests": READ,
    "doubts": READ,
    "node_embeddings": READ,
}
"""Every phase is shown these of its agent."""
_CONCLUSIONS: Final = (ANALYSIS_TYPE, ADVICE_TYPE)
_CHANGED: Final = ("properties", "seal", "unsupported_since", "updated_at")


def concludes(type_name: str) -> dict[str, Grant]:
    return {
        "graph_nodes": Grant(ALL, insert=ALL, inserts=Rows("type", (type_name,))),
        "citations": Grant(insert=ALL),
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
        updates=Rows("name", _CONCLUSIONS),
    ),
}
"""And brings up to date what an older version gave the agent."""
EDGES: Final = {"graph_edges": Grant(ALL, insert=ALL, update=_CHANGED)}
_FACTS: Final = Rows("type", _CONCLUSIONS, but=True)
_PLACE: Final = ("through_at", "through_id")
FACTS: Final = {
    **EDGES,
    "graph_nodes": Grant(ALL, insert=ALL, update=_CHANGED, inserts=_FACTS, updates=_FACTS),
    "graph_names": Grant(ALL, insert=ALL),
    "sources": Grant(ALL, insert=ALL),
    "evidence": Grant(ALL, insert=ALL),
    "node_embeddings": Grant(
        ALL, insert=ALL, update=("model", "text_sha256", "meaning", "updated_at")
    ),
    "embedding_sweeps": Grant(ALL, insert=ALL, update=("model", *_PLACE)),
}
"""What pages say, and the pages."""
# Only people merge, through the api: what goes, and comes back when that is undone, are facts alone.
MERGED: Final = {
    "graph_nodes": Grant(
        ALL,
        insert=ALL,
        update=_CHANGED,
        delete=True,
        inserts=_FACTS,
        updates=_FACTS,
        deletes=_FACTS,
    ),
    "graph_edges": Grant(ALL, insert=ALL, update=_CHANGED, delete=True),
    "graph_names": Grant(ALL, insert=ALL, update=("node_id",)),
    "graph_merges": Grant(ALL, insert=ALL, update=("undone_at",)),
    "graph_moves": Grant(ALL, insert=ALL, delete=True),
    "embedding_sweeps": Grant(ALL, update=_PLACE),
    "evidence": Grant(ALL, insert=ALL, update=("id", "node_id", "edge_id", "seal"), delete=True),
}

# What a retraction changes is what follows from the evidence that is left; the evidence itself stays as it is.
RETRACTED: Final = {
    "sources": Grant(ALL, update=("retracted_at", "retracted_because")),
    "graph_nodes": Grant(ALL, update=_CHANGED, updates=_FACTS),
    "graph_edges": Grant(ALL, update=_CHANGED),
    "retractions": Grant(ALL, insert=ALL, update=("restored_at", "due_at")),
    "retracted_sources": Grant(ALL, insert=ALL, update=("is_due", "through")),
    "citations": Grant(ALL, insert=ALL),
    "doubts": Grant(ALL, insert=ALL, update=("since", "weighed_at", "cleared_at")),
}


# What an iteration has cost is told with its end.
_COSTS: Final = {"calls": Grant(("iteration_id", "cost_usd"))}

_LETTER: Final = ("id", "actor", "subject", "payload", "step_id", "code", "error", "attempts")
_KEPT_AGAIN: Final = ("code", "error", "attempts", "kept_at")
_WORKED_ON: Final = (
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
_ASKED_FOR: Final = ("requested_at", "first_requested_at")
_ORDERED: Final = (StepKind.CONFIGURE, StepKind.CONVERSE)
"""Steps that a person asks for."""
_CONFIGURED: Final = (
    "name",
    "mission",
    *(f"{phase}_system_prompt" for phase in PROMPTED),
    "prompts_version",
    "status",
    "fault",
    "updated_at",
)
"""What is made of an agent's mission."""
_RESERVED: Final = ("reserved_usd", "reserved_on", "presumed_usd")
_DAY: Final = ("scope", "day")
_HELD: Final = ("reserved_usd", "reserved_calls")
_SPENT: Final = ("spent_usd", "spent_calls")

# Caps are for others to set. Where one is reached the agent rests, and its owner is told; of the inbox nothing else.
_PAYS: Final = {
    "budget_days": Grant(ALL, insert=(*_DAY, *_HELD), update=(*_HELD, *_SPENT)),
    "installation_budget": READ,
    "agents": Grant(ALL, update=("resting_until",)),
    "inbox_items": Grant(insert=ALL, inserts=Rows("kind", (InboxKind.NOTICE,))),
}
# What a step that is given up has reserved counts as spent.
_GIVES_UP: Final = {
    "budget_days": Grant(ALL, update=(*_HELD, *_SPENT)),
    "calls": Grant(
        (
            "id",
            "agent_id",
            "iteration_id",
            "step_id",
            "cost_usd",
            "answered_at",
            "progressed_at",
            *_RESERVED,
        ),
        update=_RESERVED,
    ),
}


def _letters(actor: str) -> dict[str, Grant]:
    """Puts its own dead letters down, and never looks at them. That one be published again it cannot even wish."""
    own = Rows("actor", (actor,))
    return {"dead_letters": Grant(("id",), _LETTER, _KEPT_AGAIN, inserts=own, updates=own)}


def _publishes_letters(actor: str) -> dict[str, Grant]:
    """May read all of them too, and delete those whose retry was asked for."""
    retried = Filled("retry_requested_at")
    own = _letters(actor)["dead_letters"]
    return {"dead_letters": replace(own, select=ALL, delete=True, deletes=retried)}


def _steps(*kinds: StepKind, makes: Columns = (), asks_for_more: bool = False) -> dict[str, Grant]:
    """Works on steps of its own kinds; may make others, but not touch them. May ask for a next one of its own kinds."""
    inserts = Rows("kind", makes) if makes else None
    own = Rows("kind", kinds)
    worked_on = (*_WORKED_ON, *(_ASKED_FOR if asks_for_more else ()))
    return {"steps": Grant(ALL, ALL if makes else (), worked_on, inserts=inserts, updates=own)}


def _asks(*phases: Phase) -> dict[str, Grant]:
    """Speaks to the model in its own phases: what was said and paid there is its own to write."""
    own = Rows("phase", tuple(phases))
    begun_anew = ("model", "system_prompt", "request", "context_sha256")
    went_on = (*begun_anew, "events", "completed_at")
    answered = (
        "sent_at",
        "received_chars",
        "progressed_at",
        "provider_ref",
        "answer",
        "input_tokens",
        "output_tokens",
        "cost_usd",
        "answered_at",
        "sendings",
        "failures",
        *_RESERVED,
    )
    return {
        **_PAYS,
        "llm_interactions": Grant(ALL, ALL, went_on, inserts=own, updates=own),
        "calls": Grant(ALL, ALL, answered, inserts=own, updates=own),
    }


_SHARES: Final = {"contexts": Grant(ALL, insert=ALL)}
"""Several of its steps are shown the same."""
_LOOKS: Final = {"agents": READ, "iterations": READ, **SEEN}
"""What every phase is shown of its agent."""


_LETS_IN: Final = {
    "users": Grant(
        ALL, insert=ALL, update=("operator", "disabled_at", "signed_in_at"), delete=True
    ),
    "api_tokens": Grant(ALL, insert=ALL, update=("last_used_at",), delete=True),
    "sign_in_links": Grant(ALL, insert=ALL, delete=True),
    "sessions": Grant(ALL, insert=ALL, update=("last_used_at",), delete=True),
}
"""Nobody but the api can look at these, so that no other actor learns of a credential."""
_DELIVERED: Final = (
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
_STOPPED: Final = ("active", "stopped_because")
_MAKES_DESTINATIONS: Final = {
    "destinations": Grant(ALL, insert=ALL, update=_STOPPED, delete=True),
    # Shown once, when they are made: the api cannot read a secret again.
    "webhook_secrets": Grant(
        ("id", "destination_id", "created_at", "expires_at"),
        insert=ALL,
        update=("expires_at",),
        delete=True,
    ),
    # Tests, which are of no inbox item, and the wish that one that failed be tried again.
    "deliveries": Grant(
        ALL, insert=("id", "destination_id", "give_up_at"), update=("retry_requested_at",)
    ),
}

GRANTS: Final[Mapping[str, Mapping[str, Grant]]] = {
    "scheduler": {
        "agents": Grant(ALL, update=("next_run_at", "run_requested_at", "iterations_started")),
        "iterations": Grant(
            ALL, insert=ALL, update=("end_told_at", "end_resends", "end_resent_at")
        ),
        "steps": Grant(
            ALL,
            insert=ALL,
            update=("requested_at", "resends"),
            inserts=Rows("kind", (StepKind.OBSERVE,)),
        ),
        **_COSTS,
        **_publishes_letters("scheduler"),
    },
    "observer": {
        **_LOOKS,
        **SYSTEM_TYPES,
        "memories": READ,
        "investigation_requests": Grant(ALL, update=("dropped_at",)),
        "iterations": Grant(ALL, update=("observer_plan", "stage", "stage_changed_at")),
        **_steps(StepKind.OBSERVE, makes=(StepKind.QUERY, StepKind.INSIGHT)),
        **_asks(Phase.OBSERVER),
        **_letters("observer"),
    },
    "researcher": {
        **_LOOKS,
        **TYPES,
        **FACTS,
        "investigation_requests": Grant(ALL, update=("answered_at", "answered_by")),
        **_steps(StepKind.QUERY),
        **_asks(Phase.KNOWLEDGE_ACQUISITION, Phase.GRAPH_CONSTRUCTION),
        **_SHARES,
        **_letters("researcher"),
    },
    "aggregator": {
        # Whether and how often it may look for what Analyzers lacked.
        "agents": Grant(("id", "feedback_rounds", "resting_until")),
        "investigation_requests": READ,
        "iterations": Grant(
            ALL,
            update=("stage", "stage_changed_at", "deadline_at", "status", "errors", "ended_at"),
        ),
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
            inserts=Rows("kind", (StepKind.QUERY, StepKind.INSIGHT, StepKind.ADVISE)),
        ),
        **_GIVES_UP,
        **_letters("aggregator"),
    },
    "analyzer": {
        **_LOOKS,
        **EDGES,
        **concludes(ANALYSIS_TYPE),
        "investigation_requests": Grant(ALL, insert=ALL),
        **_steps(StepKind.INSIGHT),
        **_asks(Phase.ANALYSIS_GENERATION),
        **_SHARES,
        **_letters("analyzer"),
    },
    "adviser": {
        **_LOOKS,
        **concludes(ADVICE_TYPE),
        "conversations": Grant(ALL, insert=ALL),
        "messages": Grant(insert=ALL),
        **_steps(StepKind.ADVISE),
        **_asks(Phase.ADVICE_GENERATION),
        "inbox_items": Grant(
            insert=ALL, inserts=Rows("kind", (InboxKind.ADVICE, InboxKind.NOTICE))
        ),
        **_letters("adviser"),
    },
    "assistant": {
        **_LOOKS,
        **SYSTEM_TYPES,
        "prompt_versions": Grant(ALL, insert=ALL),
        **_steps(StepKind.CONFIGURE, StepKind.CONVERSE, asks_for_more=True),
        "conversations": Grant(ALL, update=("summary", "summarized_turns")),
        "messages": Grant(ALL, update=("content", "draft", "looked", "citations", "completed_at")),
        "memories": Grant(ALL, insert=ALL, update=("message_id", "forgotten_at")),
        **_asks(Phase.CONFIGURATION, Phase.CONVERSATION),
        "agents": Grant(ALL, update=(*_CONFIGURED, "resting_until")),
        **_letters("assistant"),
    },
    "notifier": {
        "inbox_items": Grant(ALL, update=("dispatched_at",)),
        "agents": Grant(("id", "name")),
        "graph_nodes": READ,
        "destinations": Grant(ALL, update=_STOPPED),
        "webhook_secrets": READ,
        "deliveries": Grant(ALL, insert=ALL, update=_DELIVERED),
        **_letters("notifier"),
    },
    "api": {
        **_LOOKS,
        **TYPES,
        **RETRACTED,
        **MERGED,
        **_LETS_IN,
        **_MAKES_DESTINATIONS,
        "agents": Grant(ALL, insert=ALL, update=ALL, delete=True),
        "prompt_versions": Grant(ALL, insert=ALL),
        # An agent is deleted with its iterations locked, for which PostgreSQL asks for the right to change something.
        "iterations": Grant(ALL, update=("why",)),
        "steps": Grant(ALL, ALL, ("retry_requested_at",), inserts=Rows("kind", _ORDERED)),
        "calls": READ,
        "llm_interactions": READ,
        "contexts": READ,
        "inbox_items": Grant(
            ALL, insert=ALL, update=("read_at",), inserts=Rows("kind", (InboxKind.NOTICE,))
        ),
        "conversations": Grant(ALL, insert=ALL, update=("turns",)),
        "messages": Grant(ALL, insert=ALL),
        "memories": Grant(ALL, insert=ALL, update=("message_id", "forgotten_at")),
        "dead_letters": Grant(ALL, update=("retry_requested_at",), delete=True),
        # Old ones are locked before they are deleted, for which the same right is asked.
        "idempotency_keys": Grant(ALL, insert=ALL, update=("created_at",), delete=True),
        "installation_budget": Grant(ALL, insert=ALL, update=ALL),
        # With an agent its days go; what was reserved for it then counts as spent.
        "budget_days": Grant(ALL, update=(*_HELD, *_SPENT), delete=True),
    },
    # A person who looks after the installation: how the work goes, and what failed; not what agents know or say.
    "operator": {
        "agents": Grant(("id", "name", "active", "next_run_at", "iterations_started")),
        "iterations": READ,
        "steps": READ,
        "dead_letters": READ,
    },
}
"""By actor. Its role is `role_of` it."""
