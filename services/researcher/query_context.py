"""What both phases of the Researcher know about their query."""

from dataclasses import dataclass

from shared.database.tables import Agent
from shared.events.models import Query
from shared.graph.scope import GraphScope
from shared.workflow.leases import Lease


@dataclass(frozen=True)
class QueryContext:
    lease: Lease
    agent: Agent
    scope: GraphScope
    query: Query
    graph_context: str
    example_type: str | None = None
    """A node type of the agent that no researcher created, so that it is the same when the step is resumed."""
