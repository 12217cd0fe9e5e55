"""The tables. Importing this package registers all of them on `Base.metadata`."""

from shared.database.tables.accounts import ApiToken, BrowserSession, IdempotencyKey, SignInLink
from shared.database.tables.agents import Agent, Conversation, Memory, Message, PromptVersion, User
from shared.database.tables.base import Base
from shared.database.tables.billing import (
    BudgetDay,
    Call,
    Context,
    InstallationBudget,
    Interaction,
    PinnedContext,
)
from shared.database.tables.graph import (
    EmbeddingSweep,
    GraphEdge,
    GraphEdgeType,
    GraphHead,
    GraphJournal,
    GraphMerge,
    GraphMove,
    GraphName,
    GraphNode,
    GraphNodeType,
    NodeEmbedding,
)
from shared.database.tables.notifications import (
    DeadLetter,
    Delivery,
    Destination,
    InboxItem,
    WebhookSecret,
)
from shared.database.tables.provenance import (
    Citation,
    Doubt,
    EntailmentVerdict,
    Evidence,
    RetractedSource,
    Retraction,
    Source,
)
from shared.database.tables.workflow import InvestigationRequest, Iteration, Step

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
    "EntailmentVerdict",
    "Evidence",
    "GraphEdge",
    "GraphEdgeType",
    "GraphHead",
    "GraphJournal",
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
    "PinnedContext",
    "PromptVersion",
    "RetractedSource",
    "Retraction",
    "SignInLink",
    "Source",
    "Step",
    "User",
    "WebhookSecret",
]
