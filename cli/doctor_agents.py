"""Checks of `vigil doctor`: agents that do not work, and dead letters."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from shared.enums import AgentStatus, IterationStatus
from shared.schemas.base import AgentResponse
from shared.schemas.iterations import UNREAD_CALLS
from shared.schemas.operations import DeadLetterResponse
from shared.wording import ago, duration, plural

LATE: Final = timedelta(minutes=2)
"""Maximum delay of the start of an iteration: the scheduler starts it within seconds."""
LONG: Final = timedelta(minutes=15)
"""An iteration that runs longer is reported, not as a fault: a slow model may need that time."""

Problem = tuple[str, str]
"""The problem and its remedy. An empty remedy means that it is information only."""


def agent_problems(agents: Iterable[AgentResponse], now: datetime) -> Iterator[Problem]:
    """Yields at most one problem for each agent."""
    for agent in agents:
        problem = (
            _configuration(agent)
            or _attention(agent)
            or _running(agent, now)
            or _waiting(agent, now)
        )
        if problem is not None:
            yield f"{agent.name}: {problem[0]}", problem[1]


def server_problems(agents: Iterable[AgentResponse]) -> Iterator[Problem]:
    """Yields what the servers of the agents' models lack, each once."""
    for each in dict.fromkeys(each for agent in agents for each in agent.server_notes):
        is_fault = UNREAD_CALLS in each
        yield each, "start the server with its parser, or choose another model" if is_fault else ""


_KEYS: Final = {"model server": "OPENAI_API_KEY", "search service": "TAVILY_API_KEY"}


def refused_keys(agents: Iterable[AgentResponse]) -> dict[str, Problem]:
    """The providers that refused the installation's key in the newest iteration of an agent, by the name of their check."""
    problems: dict[str, Problem] = {}
    for agent in agents:
        iteration = agent.last_iteration
        for error in [] if iteration is None else iteration.errors:
            for name, key in _KEYS.items():
                if f"Check {key}" in error and iteration is not None:
                    text = f"in iteration {iteration.number} of {agent.name}: {error}"
                    problems[name] = text, f"correct {key}, and restart the installation"
    return problems


def _configuration(agent: AgentResponse) -> Problem | None:
    if agent.status != AgentStatus.FAILED:
        return None
    why = f": {agent.fault}" if agent.fault else ""
    return f"its configuration failed{why}", f"run `vigil agent configure {agent.name!r}`"


def _attention(agent: AgentResponse) -> Problem | None:
    attention = agent.attention
    if attention is None:
        return None
    return f"needs attention: {attention.reason}", attention.advice


def _running(agent: AgentResponse, now: datetime) -> Problem | None:
    iteration = agent.last_iteration
    if iteration is None or iteration.status != IterationStatus.RUNNING:
        return None
    seconds = (now - iteration.started_at).total_seconds()
    if seconds < LONG.total_seconds():
        return None
    text = (
        f"iteration {iteration.number} has been running for {duration(seconds)} ({iteration.stage})"
    )
    if not agent.trouble:
        return text, ""
    return (
        f"{text}; last error: {agent.trouble[-1].error}",
        f"run `vigil agent show {agent.name!r}`",
    )


def _waiting(agent: AgentResponse, now: datetime) -> Problem | None:
    is_running = (
        agent.last_iteration is not None and agent.last_iteration.status == IterationStatus.RUNNING
    )
    if not agent.active or agent.status != AgentStatus.READY or is_running:
        return None
    if agent.suspended_until is not None and agent.suspended_until > now:
        until = agent.suspended_until.astimezone(UTC)
        return f"waits until {until:%Y-%m-%d %H:%M} UTC, because a budget is used up", ""
    due_at, requested_at = agent.next_run_at, agent.run_requested_at
    if requested_at is not None and not _has_run_since(agent, requested_at):
        due_at = min(due_at, requested_at)
    if now - due_at <= LATE:
        return None
    return (
        f"an iteration was due {ago(due_at, now)} and has not started",
        "see whether the scheduler and NATS work: the lines about them, or the scheduler's log",
    )


def _has_run_since(agent: AgentResponse, moment: datetime) -> bool:
    return agent.last_iteration is not None and agent.last_iteration.started_at >= moment


def dead_letter_problem(dead_letters: Sequence[DeadLetterResponse], limit: int) -> Problem | None:
    """Summarizes the newest dead letters, at most `limit`. Those whose retry is requested do not count."""
    failed = [each for each in dead_letters if each.retry_requested_at is None]
    if not failed:
        return None
    number, newest = len(failed), failed[0]
    more = f"{number} or more dead letters" if number == limit else plural(number, "dead letter")
    return (
        f"{more}; the newest, of the {newest.service}: {newest.error}",
        "see `vigil dead-letters list`; when the cause is removed, run `vigil dead-letters retry`, otherwise discard them",
    )
