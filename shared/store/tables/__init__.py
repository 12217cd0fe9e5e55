"""The tables, by who they serve. Importing this package registers all of them on `Base.metadata`."""

from shared.store.tables.access import ApiToken, BrowserSession, SignInLink
from shared.store.tables.agents import Agent, PromptVersion, User
from shared.store.tables.base import Base
from shared.store.tables.budgets import BudgetDay, InstallationBudget
from shared.store.tables.conversations import Conversation, Memory, Message
from shared.store.tables.destinations import Delivery, Destination, WebhookSecret
from shared.store.tables.evidence import Evidence, Source
from shared.store.tables.graph import GraphEdge, GraphEdgeType, GraphNode, GraphNodeType
from shared.store.tables.idempotency import IdempotencyKey
from shared.store.tables.inbox import DeadLetter, InboxItem
from shared.store.tables.investigations import InvestigationRequest
from shared.store.tables.iterations import Iteration, Step
from shared.store.tables.ledger import Call, Context, Interaction
from shared.store.tables.meaning import EmbeddingSweep, NodeEmbedding
from shared.store.tables.naming import GraphMerge, GraphMove, GraphName
from shared.store.tables.retractions import Citation, Doubt, RetractedSource, Retraction

__all__ = [
    "Agent",
    "ApiToken",
    "Base",
    "BrowserSession",
    "BudgetDay",
    "Call",
    "Citation",
    "Context",
    "Conversation",
    "DeadLetter",
    "Delivery",
    "Destination",
    "Doubt",
    "EmbeddingSweep",
    "Evidence",
    "GraphEdge",
    "GraphEdgeType",
    "GraphMerge",
    "GraphMove",
    "GraphName",
    "GraphNode",
    "GraphNodeType",
    "IdempotencyKey",
    "InboxItem",
    "InstallationBudget",
    "Interaction",
    "InvestigationRequest",
    "Iteration",
    "Memory",
    "Message",
    "NodeEmbedding",
    "PromptVersion",
    "RetractedSource",
    "Retraction",
    "SignInLink",
    "Source",
    "Step",
    "User",
    "WebhookSecret",
]
