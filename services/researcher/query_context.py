"""What both phases of the Researcher know about their query."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from shared.agents.agents import AgentRow
from shared.database.tables import Agent
from shared.events.models import Query
from shared.graph.context import Survey
from shared.graph.scope import GraphScope
from shared.workflow.leases import Lease


@dataclass(frozen=True)
class QueryContext:
    lease: Lease
    agent: Agent | AgentRow
    scope: GraphScope
    query: Query
    survey: Survey
    now: datetime
    node_types: Sequence[str] = ()
    """Names of the agent's node types that no researcher created, so that they are the same when the step is resumed."""
