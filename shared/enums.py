"""Enumerations, with the values that the tables store."""

from enum import StrEnum


class IterationStatus(StrEnum):
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    QUIET = "quiet"
    """Nothing was new and nothing was due, so nothing was done."""


class WorkReason(StrEnum):
    """Why an iteration is not quiet. Stored with it."""

    FIRST = "first"
    ERRORS = "errors"
    LEARNED = "learned"
    CONTINUED = "continued"
    DATA_REQUESTED = "data_requested"
    GRAPH_EMPTY = "graph_empty"
    RUN_REQUESTED = "run_requested"
    RESUMED = "resumed"
    OWNER_ACTED = "owner_acted"
    SEARCH_DUE = "search_due"
    NEWS = "news"
    DUE = "due"


class ProbeKind(StrEnum):
    """What is checked for changes."""

    PAGE = "page"
    FEED = "feed"


class RequestState(StrEnum):
    """State of an investigation request."""

    OPEN = "open"
    ANSWERED = "answered"
    NOT_FOUND = "not_found"
    DROPPED = "dropped"


class NewsKind(StrEnum):
    """Kind of a news item."""

    PAGE = "page"
    """A page has changed since it was read."""
    DOCUMENT = "document"
    """A feed has an entry of a page that was not read."""


class NewsState(StrEnum):
    """State of a news item. An open item is offered to each plan."""

    OPEN = "open"
    PLANNED = "planned"
    """A query is to read it. If none does, it is open again."""
    READ = "read"
    SKIPPED = "skipped"
    EXPIRED = "expired"


class Stage(StrEnum):
    """The progress of an iteration. Each stage waits for the steps of one kind."""

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
    """Agent task (a step without an iteration): configures the agent from its mission."""
    CONVERSE = "converse"
    """Agent task: answers one message of the conversation."""


class StepStatus(StrEnum):
    PLANNED = "planned"
    """Part of the plan, not requested yet."""
    PENDING = "pending"
    """Requested; waits for a worker."""
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


class Phase(StrEnum):
    OBSERVER = "observer"
    KNOWLEDGE_ACQUISITION = "knowledge_acquisition"
    GRAPH_CONSTRUCTION = "graph_construction"
    ANALYSIS_GENERATION = "analysis_generation"
    ADVICE_GENERATION = "advice_generation"
    VERIFICATION = "verification"
    """Reads conclusions before they are stored, what they cite, and a sample of new evidence."""
    CONVERSATION = "conversation"
    CONFIGURATION = "configuration"


PROMPTED_PHASES: tuple[Phase, ...] = tuple(
    phase for phase in Phase if phase not in (Phase.VERIFICATION, Phase.CONFIGURATION)
)
"""The phases for which each agent has its own system prompt."""


class Entailment(StrEnum):
    """What a model found when it compared a claim with the quote that it cites."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    NOT_STATED = "not_stated"


class SentenceKind(StrEnum):
    """What a sentence of a conclusion does with what it cites."""

    STATES = "states"
    COMPARES = "compares"
    INFERS = "infers"
    EXPECTS = "expects"


class SentenceVerdict(StrEnum):
    """What a model found when it compared a sentence of a conclusion with what it cites.

    The first three are those of statements and comparisons, the others those of inferences and expectations.
    """

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    NOT_STATED = "not_stated"
    FOLLOWS = "follows"
    PLAUSIBLE = "plausible"
    DOES_NOT_FOLLOW = "does_not_follow"


class AgentStatus(StrEnum):
    CONFIGURING = "configuring"
    """Has no prompts yet. Runs as soon as it has."""
    READY = "ready"
    FAILED = "failed"
    """Could not be configured. Its `fault` says why."""


class PromptMaker(StrEnum):
    CONFIGURATION = "configuration"
    OWNER = "owner"


class DestinationKind(StrEnum):
    WEBHOOK = "webhook"
    MAIL = "mail"


class DeliveryStatus(StrEnum):
    PENDING = "pending"
    """Not sent yet, being sent, or waiting after a failed attempt."""
    DELIVERED = "delivered"
    FAILED = "failed"


class Role(StrEnum):
    """The author of a message in a conversation."""

    USER = "user"
    AGENT = "agent"


class MemoryKind(StrEnum):
    WISH = "wish"
    """What the owner wants the agent to do or to watch."""
    FACT = "fact"
    """What the owner states as true."""


class CallKind(StrEnum):
    LLM = "llm"
    SEARCH = "search"


class AccessScope(StrEnum):
    """What a credential permits."""

    READ = "read"
    WRITE = "write"
    OPERATOR = "operator"
    """Operating the installation. Only an operator's credentials can have it."""


class CredentialKind(StrEnum):
    TOKEN = "token"
    """An API token, for programs."""
    SESSION = "session"
    """A session of a browser."""


class InboxKind(StrEnum):
    ADVICE = "advice"
    NOTICE = "notice"
    """A message about the agent itself, which its owner may want to act on."""


class CheckFailure(StrEnum):
    """Why a page or feed could not be checked."""

    NOT_REACHED = "not reached"
    UNREADABLE = "unreadable"
    UNSUPPORTED = "unsupported type"


class NoticeCause(StrEnum):
    """Why an agent has a notice that is open until its cause ends."""

    ATTENTION = "attention"
    """Its iterations fail or have no result."""


class PositionState(StrEnum):
    """State of a piece of advice. Only one that is standing is the agent's position on its subject."""

    STANDING = "standing"
    DOUBTED = "in doubt"
    EXPIRED = "expired"
    REPLACED = "replaced"
    WITHDRAWN = "withdrawn"


class InboxOutcome(StrEnum):
    """What the owner decided about an inbox item."""

    ACCEPTED = "accepted"
    DISMISSED = "dismissed"


class InboxView(StrEnum):
    """Which items of an inbox are listed."""

    OPEN = "open"
    """Neither done nor snoozed."""
    UNREAD = "unread"
    """Those of the open ones that are not read."""
    SNOOZED = "snoozed"
    DONE = "done"
    """Accepted, dismissed, or no longer so."""
    ALL = "all"


ANALYSIS_TYPE = "AgentAnalysis"
ADVICE_TYPE = "AgentAdvice"


class RetentionKind(StrEnum):
    """Kinds of rows that are deleted when they are old. In the order in which they are pruned."""

    DEAD_LETTERS = "dead_letters"
    TRANSCRIPTS = "transcripts"
    ITERATIONS = "iterations"
    CONTEXTS = "contexts"
    PAGES = "pages"
    DELIVERIES = "deliveries"
    NOTICES = "notices"
    REQUESTS = "requests"
