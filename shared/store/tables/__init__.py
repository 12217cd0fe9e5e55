"""The tables, by who they serve. Importing this package registers all of them on `Base.metadata`."""

from shared.store.tables.agents import Agent, User
from shared.store.tables.base import Base
from shared.store.tables.conversations import Conversation, Memory, Message
from shared.store.tables.graph import GraphEdge, GraphEdgeType, GraphNode, GraphNodeType
from shared.store.tables.inbox import DeadLetter, InboxItem
from shared.store.tables.iterations import Iteration, Step
from shared.store.tables.ledger import Call, Interaction

__all__ = [
    "Agent",
    "Base",
    "Call",
    "Conversation",
    "DeadLetter",
    "GraphEdge",
    "GraphEdgeType",
    "GraphNode",
    "GraphNodeType",
    "InboxItem",
    "Interaction",
    "Iteration",
    "Memory",
    "Message",
    "Step",
    "User",
]
