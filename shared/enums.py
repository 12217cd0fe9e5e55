"""The fixed words of the state, as they stand in the tables."""

from enum import StrEnum


class IterationStatus(StrEnum):
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


class Stage(StrEnum):
    """Where an iteration stands; each stage waits for the steps of one kind."""

    OBSERVING = "observing"
    RESEARCHING = "researching"
    ANALYZING = "analyzing"
    ADVISING = "advising"
    ENDED = "ended"


class StepKind(StrEnum):
    OBSERVE = "observe"
    QUERY = "query"
    INSIGHT = "insight"
    ADVISE = "advise"
    CONFIGURE = "configure"
    """Of no iteration, as all that follow: makes the agent from its mission."""
    CONVERSE = "converse"
    """Answers one message of the conversation."""


class StepStatus(StrEnum):
    PLANNED = "planned"
    """Known from the plan, not yet asked for."""
    PENDING = "pending"
    """Asked for; waits for a worker."""
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


class Phase(StrEnum):
    OBSERVER = "observer"
    KNOWLEDGE_ACQUISITION = "knowledge_acquisition"
    GRAPH_CONSTRUCTION = "graph_construction"
    ANALYSIS_GENERATION = "analysis_generation"
    ADVICE_GENERATION = "advice_generation"
    CONVERSATION = "conversation"
    CONFIGURATION = "configuration"


PROMPTED: tuple[Phase, ...] = tuple(phase for phase in Phase if phase is not Phase.CONFIGURATION)
"""The phases for which an agent has a system prompt of its own."""


class AgentStatus(StrEnum):
    CONFIGURING = "configuring"
    """Has no prompts yet; runs when it has."""
    READY = "ready"
    FAILED = "failed"
    """Could not be configured; its fault says why."""


class PromptMaker(StrEnum):
    CONFIGURATION = "configuration"
    OWNER = "owner"


class DestinationKind(StrEnum):
    WEBHOOK = "webhook"
    MAIL = "mail"


class DeliveryStatus(StrEnum):
    PENDING = "pending"
    """To be sent, being sent, or resting after a failed attempt."""
    DELIVERED = "delivered"
    FAILED = "failed"


class Role(StrEnum):
    """Who speaks in a conversation."""

    USER = "user"
    AGENT = "agent"


class MemoryKind(StrEnum):
    WISH = "wish"
    """What the owner wants the agent to do or to watch."""
    FACT = "fact"
    """What the owner says is so."""


class CallKind(StrEnum):
    LLM = "llm"
    SEARCH = "search"


class AccessScope(StrEnum):
    """What a credential may be used for."""

    READ = "read"
    WRITE = "write"
    OPERATOR = "operator"
    """To look after the installation. Only an operator's credentials can have it."""


class CredentialKind(StrEnum):
    TOKEN = "token"
    """Of a program."""
    SESSION = "session"
    """Of a browser."""


class InboxKind(StrEnum):
    ADVICE = "advice"
    NOTICE = "notice"
    """Something about the agent itself that its owner may want to mend."""


ANALYSIS_TYPE = "AgentAnalysis"
ADVICE_TYPE = "AgentAdvice"
