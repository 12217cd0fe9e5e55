"""Who may do what in Postgres, as plain values: what each writes is its own, the rest is denied.

A role is asked for a table by name here, or has nothing of it: tables that are added later are denied to everybody
until they are named.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from shared.store.words import ADVICE_TYPE, ANALYSIS_TYPE, Phase, StepKind

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
class Grant:
    """What one role may do with one table. Empty columns: nothing of that kind.

    `inserts` and `updates` bound the rows that may be written; None bounds nothing.
    """

    select: Columns = ()
    insert: bool = False
    update: Columns = ()
    delete: bool = False
    inserts: Rows | None = None
    updates: Rows | None = None


READ: Final = Grant(select=ALL)

# A dead letter is put down and never looked at; its error and count grow when it is delivered again.
_LETTERS: Final = {"dead_letters": Grant(("id",), insert=True, update=("error", "attempts"))}

# What an iteration has cost is told with its end.
_COSTS: Final = {"calls": Grant(("iteration_id", "cost_usd"))}

_WORKED_ON: Final = (
    "status",
    "result",
    "error",
    "attempts",
    "epoch",
    "lease_owner",
    "lease_until",
    "retry_at",
    "started_at",
    "ended_at",
)
_CONCLUSIONS: Final = (ANALYSIS_TYPE, ADVICE_TYPE)
_MERGED: Final = ("properties", "updated_at")


def _steps(kind: StepKind, *makes: StepKind) -> dict[str, Grant]:
    """Works on steps of its own kind; may make others, but not touch them."""
    inserts = Rows("kind", tuple(makes)) if makes else None
    own = Rows("kind", (kind,))
    return {"steps": Grant(ALL, bool(makes), _WORKED_ON, inserts=inserts, updates=own)}


def _asks(*phases: Phase) -> dict[str, Grant]:
    """Speaks to the model in its own phases: what was said and paid there is its own to write."""
    own = Rows("phase", tuple(phases))
    answered = ("answer", "input_tokens", "output_tokens", "cost_usd", "answered_at")
    return {
        "llm_interactions": Grant(ALL, True, ("events", "completed_at"), inserts=own, updates=own),
        "calls": Grant(ALL, True, answered, inserts=own, updates=own),
    }


_LOOKS: Final = {
    "agents": READ,
    "iterations": READ,
    "graph_node_types": READ,
    "graph_edge_types": READ,
    "graph_nodes": READ,
    "graph_edges": READ,
}
"""What every phase is shown of its agent."""


def _concludes(type_name: str) -> dict[str, Grant]:
    return {"graph_nodes": Grant(ALL, insert=True, inserts=Rows("type", (type_name,)))}


_MAKES_TYPES: Final = {
    "graph_node_types": Grant(ALL, insert=True),
    "graph_edge_types": Grant(ALL, insert=True),
}
_WRITES_EDGES: Final = {"graph_edges": Grant(ALL, insert=True, update=_MERGED)}
_FACTS: Final = Rows("type", _CONCLUSIONS, but=True)

GRANTS: Final[Mapping[str, Mapping[str, Grant]]] = {
    "scheduler": {
        "agents": Grant(ALL, update=("next_run_at", "run_requested_at", "iterations_started")),
        "iterations": Grant(
            ALL, insert=True, update=("end_told_at", "end_resends", "end_resent_at")
        ),
        "steps": Grant(
            ALL,
            insert=True,
            update=("requested_at", "resends"),
            inserts=Rows("kind", (StepKind.OBSERVE,)),
        ),
        **_COSTS,
        **_LETTERS,
    },
    "observer": {
        **_LOOKS,
        **_MAKES_TYPES,
        "iterations": Grant(ALL, update=("observer_plan", "stage_changed_at")),
        **_steps(StepKind.OBSERVE, StepKind.QUERY, StepKind.INSIGHT),
        **_asks(Phase.OBSERVER),
        **_LETTERS,
    },
    "researcher": {
        **_LOOKS,
        **_MAKES_TYPES,
        **_WRITES_EDGES,
        "graph_nodes": Grant(ALL, insert=True, update=_MERGED, inserts=_FACTS, updates=_FACTS),
        **_steps(StepKind.QUERY),
        **_asks(Phase.KNOWLEDGE_ACQUISITION, Phase.GRAPH_CONSTRUCTION),
        **_LETTERS,
    },
    "aggregator": {
        "iterations": Grant(
            ALL, update=("stage", "stage_changed_at", "status", "errors", "ended_at")
        ),
        "steps": Grant(
            ALL,
            insert=True,
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
            inserts=Rows("kind", (StepKind.ADVISE,)),
        ),
        **_COSTS,
        **_LETTERS,
    },
    "analyzer": {
        **_LOOKS,
        **_WRITES_EDGES,
        **_concludes(ANALYSIS_TYPE),
        **_steps(StepKind.INSIGHT),
        **_asks(Phase.ANALYSIS_GENERATION),
        **_LETTERS,
    },
    "adviser": {
        **_LOOKS,
        **_concludes(ADVICE_TYPE),
        "inbox_items": Grant(insert=True),
        "conversations": Grant(ALL, insert=True),
        "messages": Grant(insert=True),
        **_steps(StepKind.ADVISE),
        **_asks(Phase.ADVICE_GENERATION),
        **_LETTERS,
    },
    "api": {
        **_LOOKS,
        **_MAKES_TYPES,
        "users": Grant(ALL, insert=True),
        "agents": Grant(ALL, insert=True, update=ALL, delete=True),
        "steps": READ,
        "calls": READ,
        "llm_interactions": READ,
        "inbox_items": Grant(ALL, update=("read_at",)),
        "conversations": Grant(ALL, insert=True),
        "messages": Grant(ALL, insert=True),
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


def role_of(name: str) -> str:
    """The Postgres role of an actor."""
    return f"vigil_{name}"
