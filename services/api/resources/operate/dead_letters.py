"""Dead letters in words: what failed, why, and what to do."""

from typing import Final, NamedTuple

from shared.enums import StepKind
from shared.schemas.operations import DeadLetterResponse
from shared.workflow.dead_letters import MODEL_RESPONSE_CODES


class Explanation(NamedTuple):
    title: str
    """What failed."""
    cause: str
    advice: str
    """What to do."""


_WORK: Final = {
    "iteration.started": "Planning failed",
    "query.requested": "A query failed",
    "insight.requested": "An insight failed",
    "analysis.produced": "Deciding on advice failed",
    "configuration.requested": "Configuring an agent failed",
    "answer.requested": "Answering a message failed",
    "advice.produced": "Advice was not sent to destinations",
}
"""What the request of a step, or another message, was to start."""

_FIX_THEN_RETRY: Final = "Fix what the error describes, then retry."
_UNREADABLE: Final = (
    "This version of Vigil cannot read the message.",
    "Discard it. If more arrive, find out what sends them: other programs must not publish here.",
)
_UNUSABLE_ANSWER: Final = (
    "The model's answer could not be used.",
    "Run the agent again. A retry would read the same answer.",
)
REASONS: Final = {
    "attempts_used_up": (
        "Every attempt failed, the last one with this error.",
        "Fix the cause, or wait until it is gone, then retry.",
    ),
    "claimed_too_often": (
        "Several workers started it and none finished it. They probably crashed.",
        "Check the log of the service, then retry.",
    ),
    "llm_key": ("The model server refused the key.", "Correct the key, then retry."),
    "llm_model": ("The model server does not offer this model.", _FIX_THEN_RETRY),
    "llm_quota": (
        "The account at the model server has no credit left.",
        "Check its plan and billing, then retry.",
    ),
    "llm_request": ("The model server refused the request.", _FIX_THEN_RETRY),
    "llm_timeout": (
        "The model repeatedly took too long.",
        "Use a faster model or raise the time limit, then retry.",
    ),
    "context_too_small": (
        "The request is longer than the model's context.",
        "Use a model with a longer context, then retry.",
    ),
    "empty_answer": _UNUSABLE_ANSWER,
    "invalid_answer": _UNUSABLE_ANSWER,
    "search_key": ("The search service refused the key.", "Correct TAVILY_API_KEY, then retry."),
    "unreadable_event": _UNREADABLE,
    "unknown_event": _UNREADABLE,
    "misplaced_event": _UNREADABLE,
    "wrong_service": _UNREADABLE,
    "unexpected": (
        "An unexpected error, probably a bug in Vigil.",
        "Retry it once. If it fails again, report it with these details.",
    ),
}
_UNKNOWN_REASON: Final = ("It failed with this error.", _FIX_THEN_RETRY)


def explain(letter: DeadLetterResponse) -> Explanation:
    cause, advice = REASONS.get(letter.code, _UNKNOWN_REASON)
    if letter.step is not None and letter.step.kind == StepKind.OBSERVE:
        advice = "Its iteration has ended, so it cannot be retried. Run the agent again."
    elif letter.refusal is not None and letter.code not in MODEL_RESPONSE_CODES:
        advice = f"It cannot be retried now: {letter.refusal}."
    elif letter.retry_requested_at is not None:
        advice = "It is retried within seconds and reappears here if it fails again."
    return Explanation(_title(letter), cause, advice)


def _title(letter: DeadLetterResponse) -> str:
    if letter.step is not None and letter.step.kind in (StepKind.QUERY, StepKind.INSIGHT):
        return f"{letter.step.kind.capitalize()} {letter.step.index + 1} failed"
    work = _WORK.get(letter.subject)
    if work is not None:
        return work
    return f"The {letter.service} could not process {letter.subject}"
