"""What became of an iteration and its steps, and what to do about errors. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import sqrt
from typing import Final, NamedTuple
from uuid import UUID

from shared.billing.budgets import SUSPENSION_WORDS
from shared.enums import IterationStatus, StepKind
from shared.schemas.base import IterationSummary
from shared.schemas.iterations import IterationOutcome
from shared.wording import duration


def step_name(kind: str, index: int) -> str:
    """`Query 2`; without a number where there is only one of the kind."""
    match StepKind(kind):
        case StepKind.QUERY | StepKind.INSIGHT as counted:
            return f"{counted.value.capitalize()} {index + 1}"
        case StepKind.OBSERVE:
            return "Plan"
        case _:
            return "Advice"


@dataclass(frozen=True)
class Outcome:
    word: str
    tone: str
    icon: str


STOPPED: Final = Outcome("stopped", "warn", "wallet")
_RUNNING: Final = Outcome("running", "busy", "loader-circle")
_OUTCOMES: Final = {
    IterationStatus.RUNNING: _RUNNING,
    IterationStatus.COMPLETED: Outcome("completed", "good", "circle-check"),
    IterationStatus.FAILED: Outcome("failed", "bad", "circle-x"),
    IterationStatus.QUIET: Outcome("quiet", "idle", "circle-dashed"),
}


def outcome(status: str, *, is_stopped: bool = False) -> Outcome:
    return STOPPED if is_stopped else _OUTCOMES[IterationStatus(status)]


def outcome_of(iteration: IterationSummary) -> Outcome:
    if iteration.status == IterationStatus.RUNNING:
        return Outcome(iteration.stage, _RUNNING.tone, _RUNNING.icon)
    return outcome(iteration.status, is_stopped=is_stopped(iteration))


def is_stopped(iteration: IterationSummary) -> bool:
    """Whether it failed only because a daily budget was reached, which is no fault."""
    return (
        iteration.status == IterationStatus.FAILED
        and bool(iteration.errors)
        and all(SUSPENSION_WORDS in error for error in iteration.errors)
    )


def seconds_of(iteration: IterationSummary | IterationOutcome) -> float | None:
    """None while it runs."""
    if iteration.ended_at is None:
        return None
    return max((iteration.ended_at - iteration.started_at).total_seconds(), 0.0)


@dataclass(frozen=True)
class StripBar:
    """`share` is the square root of the duration relative to the longest, so that short ones remain visible.

    `seconds` is None while it runs.
    """

    number: int
    outcome: Outcome
    seconds: float | None
    share: float
    started_at: datetime

    @property
    def title(self) -> str:
        took = "" if self.seconds is None else f", {duration(self.seconds)}"
        return f"Iteration {self.number}: {self.outcome.word}{took}"


def build_strip(outcomes: Sequence[IterationOutcome]) -> list[StripBar]:
    longest = max((seconds_of(each) or 0.0 for each in outcomes), default=0.0)
    return [
        StripBar(
            number=each.number,
            outcome=outcome(each.status, is_stopped=each.is_stopped),
            seconds=(seconds := seconds_of(each)),
            share=1.0 if seconds is None else sqrt(seconds / longest) if longest else 0.0,
            started_at=each.started_at,
        )
        for each in outcomes
    ]


STRIP_KEYS: Final = (
    *(_OUTCOMES[status] for status in (IterationStatus.COMPLETED, IterationStatus.FAILED)),
    STOPPED,
    _OUTCOMES[IterationStatus.QUIET],
)


@dataclass(frozen=True)
class Link:
    href: str
    text: str
    icon: str
    for_operators: bool = False


@dataclass(frozen=True)
class Problem:
    """Why steps failed, in a few words; what to do; and the error itself."""

    title: str
    remedy: str
    error: str
    steps: tuple[str, ...]
    """Names of the kinds of the steps, repeated for each step."""
    link: Link | None = None
    is_stop: bool = False
    can_run_again: bool = True


class _Cause(NamedTuple):
    """The error contains `words`. `link` begins at the agent's address, or at the root."""

    words: tuple[str, ...]
    title: str
    remedy: str
    link: Link | None
    can_run_again: bool = True


_HEALTH: Final = Link(
    "/operate#providers", "Check the providers", "heart-pulse", for_operators=True
)
_MODELS: Final = Link("{agent}/settings#models", "Change the model", "settings")
_BUDGET: Final = Link("{agent}/settings#budget", "Change the budget", "wallet")
_CAUSES: Final = (
    _Cause(
        (SUSPENSION_WORDS,),
        "Daily budget reached",
        "The agent continues at midnight (UTC), or as soon as you raise the budget.",
        _BUDGET,
        can_run_again=False,
    ),
    _Cause(
        ("Check TAVILY_API_KEY",),
        "The search service refused the key",
        "Correct TAVILY_API_KEY, restart the installation, then run again.",
        _HEALTH,
    ),
    _Cause(
        ("Check OPENAI_API_KEY",),
        "The model server refused the key",
        "Correct OPENAI_API_KEY, restart the installation, then run again.",
        _HEALTH,
    ),
    _Cause(
        ("Check the model name",),
        "The model server does not offer the model",
        "Choose a model that the server offers, or correct OPENAI_BASE_URL.",
        _MODELS,
    ),
    _Cause(
        ("plan and billing",),
        "The account at the model server has no credit left",
        "Check the account's plan and billing, then run again.",
        _HEALTH,
    ),
    _Cause(
        ("no progress for",),
        "No progress for too long",
        "No step ended and no call was answered in time. Check that the services are running.",
        _HEALTH,
    ),
    _Cause(
        (
            "cannot be reached",
            "no answer from",
            "dropped the connection",
            "gave up on",
            "redirects",
        ),
        "A provider did not answer",
        "Check that the provider can be reached, then run again.",
        _HEALTH,
    ),
    _Cause(
        ("answered 429", "answered 5", "overloaded", "rate limit"),
        "A provider is overloaded or limits requests",
        "Vigil retried it without success. Run again later, or raise the limit at the provider.",
        _HEALTH,
    ),
)
_UNKNOWN: Final = _Cause((), "A step failed", "Read the error below, then run again.", None)


def problems_of(iteration: IterationSummary) -> list[Problem]:
    """Returns the errors of the iteration, each once, with its steps."""
    steps: dict[str, list[str]] = {}
    for error in iteration.errors:
        kind, _, rest = error.partition(": ")
        if kind in _STEP_NAMES:
            steps.setdefault(rest, []).append(_STEP_NAMES[kind])
        else:
            steps.setdefault(error, [])
    return [_problem(iteration.agent_id, error, names) for error, names in steps.items()]


_STEP_NAMES: Final = {"observe": "plan", "query": "query", "insight": "insight", "advise": "advice"}


def cause_of(error: str) -> str:
    """Says in a few words why a step failed."""
    return _cause(error).title


def _cause(error: str) -> _Cause:
    causes = (cause for cause in _CAUSES if any(words in error for words in cause.words))
    return next(causes, _UNKNOWN)


def _problem(agent_id: UUID, error: str, steps: Sequence[str]) -> Problem:
    cause, link = _cause(error), _cause(error).link
    return Problem(
        title=cause.title,
        remedy=cause.remedy,
        error=error,
        steps=tuple(steps),
        link=link and replace(link, href=link.href.format(agent=f"/agents/{agent_id}")),
        is_stop=SUSPENSION_WORDS in error,
        can_run_again=cause.can_run_again,
    )
