"""What both phases of the Researcher know of the query they work on."""

from dataclasses import dataclass

from shared.database.tables import Agent
from shared.events.models import Query
from shared.graph.scope import Scope
from shared.workflow.leases import Lease


@dataclass(frozen=True)
class Situation:
    lease: Lease
    agent: Agent
    scope: Scope
    query: Query
    graph_context: str
