"""What both phases of the Researcher know of the query they work on."""

from dataclasses import dataclass

from shared.events.models import Query
from shared.graph.scope import Scope
from shared.store.leases import Lease
from shared.store.tables import Agent


@dataclass(frozen=True)
class Situation:
    lease: Lease
    agent: Agent
    scope: Scope
    query: Query
    graph_context: str
