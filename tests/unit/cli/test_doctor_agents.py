"""`vigil doctor` names agents that do not work, and what failed for good."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from cli.doctor_agents import (
    LATE,
    LONG,
    agent_problems,
    dead_letter_problem,
    server_problems,
)
from shared.schemas.iterations import SERVER_NOTE, UNREAD_CALLS
from shared.schemas.operations import DeadLetterResponse
from tests.support import responses
from tests.support.responses import START, agent

NOW = START
SECOND = timedelta(seconds=1)


def iteration(status: str, started_ago: timedelta) -> dict[str, Any]:
    return {
        "id": UUID(int=1),
        "agent_id": UUID(int=7),
        "number": 3,
        "why": "due",
        "status": status,
        "stage": "researching",
        "errors": [],
        "started_at": NOW - started_ago,
        "ended_at": None,
    }


TROUBLE = {
    "iteration_number": 3,
    "step": "query",
    "index": 0,
    "attempts": 2,
    "error": "the model server answered 500",
    "retry_at": None,
}
LATE_RUN = {"next_run_at": NOW - LATE - SECOND, "run_requested_at": None}
IDLE = {"next_run_at": NOW + SECOND, "run_requested_at": None}


@pytest.mark.parametrize(
    ("changes", "words", "has_fix"),
    [
        (IDLE, None, False),
        (LATE_RUN | {"status": "configuring"}, None, False),
        (IDLE | {"status": "failed", "fault": "401 from x"}, "configuration failed: 401 from x", True),
        (IDLE | {"status": "failed"}, "configuration failed", True),
        (LATE_RUN, "was due 2 min 1 s ago and has not started", True),
        (LATE_RUN | {"active": False}, None, False),
        (LATE_RUN | {"next_run_at": NOW - LATE}, None, False),
        (IDLE | {"run_requested_at": NOW - LATE - SECOND}, "was due", True),
        (IDLE | {"run_requested_at": NOW - LATE - SECOND, "last_iteration": iteration("completed", LATE)}, None, False),
        (LATE_RUN | {"suspended_until": NOW + SECOND}, "a budget is used up", False),
        (LATE_RUN | {"suspended_until": NOW - SECOND}, "was due", True),
        (LATE_RUN | {"last_iteration": iteration("running", SECOND)}, None, False),
        (LATE_RUN | {"last_iteration": iteration("running", LONG)}, "running for 15 min (researching)", False),
        (LATE_RUN | {"last_iteration": iteration("running", LONG), "trouble": [TROUBLE]}, "answered 500", True),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_agent(
    changes: dict[str, Any], words: str | None, has_fix: bool
) -> None:
    problems = list(agent_problems([agent("Zinc", **changes)], NOW))
    if words is None:
        assert problems == []
        return
    ((text, fix),) = problems
    assert text.startswith("Zinc: ")
    assert words in text
    assert bool(fix) == has_fix


def dead_letter(error: str, retry_requested: bool = False) -> DeadLetterResponse:
    return responses.dead_letter(error=error, retry_requested_at=NOW if retry_requested else None)


def test_every_agent_is_named() -> None:
    agents = [agent("Zinc", **LATE_RUN), agent("Tin", **IDLE), agent("Gold", status="failed")]
    assert [text.split(":")[0] for text, _ in agent_problems(agents, NOW)] == ["Zinc", "Gold"]


def test_dead_letters_are_counted_and_the_newest_is_shown() -> None:
    assert dead_letter_problem([], 50) is None
    assert dead_letter_problem([dead_letter("is retried", retry_requested=True)], 50) is None
    letters = [dead_letter("page too large"), dead_letter("older")]
    text, fix = dead_letter_problem(letters, 50) or ("", "")
    assert text == "2 dead letters; the newest, of the researcher: page too large"
    assert "vigil dead-letters" in fix
    more, _ = dead_letter_problem(letters, 2) or ("", "")
    assert more.startswith("2 or more dead letters")


def test_what_model_servers_lack_is_listed_once() -> None:
    unread = f"{SERVER_NOTE}m {UNREAD_CALLS}."
    other = f"{SERVER_NOTE}n reports no usage."
    agents = [agent(server_notes=[unread]), agent(server_notes=[unread, other]), agent()]
    assert [(text, bool(fix)) for text, fix in server_problems(agents)] == [
        (unread, True), (other, False),
    ]  # fmt: skip
