"""The `vigil dead-letters` command on a whole installation."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import pytest

from cli.cluster.keys import Keys
from shared.events.permissions import inbox_prefix
from tests.support.e2e.installation import MISSION, Installation, installed
from tests.support.sandbox_control import Sandbox
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

UNREADABLE = b"\x00\xff junk"
FUTURE = b'{"type": "vigil.query.v2.requested"}'


@pytest.fixture
def vigil(tmp_path: Path, sandbox: str) -> Iterator[Installation]:
    """An installation with a sandbox, in which the test can inject faults, as model and search service."""
    environment = {
        "OPENAI_BASE_URL": f"{sandbox}/v1",
        "OPENAI_API_KEY": "sandbox",
        "OPENAI_MODEL": "sandbox-reader",
        "TAVILY_BASE_URL": sandbox,
        "TAVILY_API_KEY": "sandbox",
    }
    with installed(tmp_path, environment) as installation:
        installation.up()
        yield installation


async def publish(vigil: Installation, *payloads: bytes) -> None:
    """Publish as the observer, which may publish this subject."""
    login = Keys(vigil.data.keys, private=True).login_of("observer")
    client = await nats.connect(
        vigil.running.nats_url,
        user=login["nats_user"],
        password=login["nats_password"],
        inbox_prefix=inbox_prefix("observer"),
    )
    for payload in payloads:
        await client.jetstream().publish("query.requested", payload)
    await client.close()


def wait_for_letters(vigil: Installation, number: int) -> list[dict[str, Any]]:
    """Wait until there are `number` dead letters; return them."""

    def look() -> list[dict[str, Any]] | None:
        dead_letters: list[dict[str, Any]] = vigil.json("dead-letters", "list")
        return dead_letters if len(dead_letters) == number else None

    return wait_for(look, f"{number} dead letters")


def run_command(vigil: Installation, *arguments: str, code: int = 0) -> str:
    result = vigil.vigil("dead-letters", *arguments)
    assert result.returncode == code, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    return result.stdout + result.stderr


def test_dead_letters_are_listed_shown_retried_and_discarded(
    vigil: Installation, sandbox: str
) -> None:
    assert "no dead letters" in run_command(vigil, "list")
    asyncio.run(publish(vigil, UNREADABLE, FUTURE))
    by_code = {dead_letter["code"]: dead_letter for dead_letter in wait_for_letters(vigil, 2)}
    future = by_code["unknown_event"]["id"]
    assert "does not know version 2 of query.requested" in run_command(vigil, "show", future[:8])
    assert "00 ff 20 6a" in run_command(vigil, "show", by_code["unreadable_event"]["id"])
    assert future[:8] in run_command(vigil, "list", "--service", "researcher")

    stored_at = by_code["unknown_event"]["stored_at"]
    assert "will be published again" in run_command(vigil, "retry", future[:8])
    wait_for(lambda: _stored_again(vigil, future, stored_at), "the dead letter to be stored again")
    assert "is discarded" in run_command(vigil, "discard", future[:8])

    Sandbox(sandbox).faults(
        {"kind": "status", "status": 401, "phase": "knowledge_acquisition", "nth": 1}
    )
    vigil.vigil("agent", "create", MISSION, "--name", "Batteries", "--interval", "1d")
    vigil.ended_iteration("Batteries", 1)
    step_letter = next(
        dead_letter for dead_letter in wait_for_letters(vigil, 2) if dead_letter["step"]
    )
    assert (step_letter["code"], step_letter["step"]["agent_name"]) == ("llm_key", "Batteries")
    assert "retry" in run_command(vigil, "show", step_letter["id"][:8])
    run_command(vigil, "retry", step_letter["id"])
    (remaining,) = wait_for_letters(vigil, 1)
    assert remaining["code"] == "unreadable_event"

    assert "There is no dead letter 'zzz'" in run_command(
        vigil, "retry", remaining["id"], "zzz", code=1
    )
    assert "name the ids of the dead letters to discard" in run_command(vigil, "discard", code=2)
    assert "Discard the only dead letter?" in run_command(vigil, "discard", "--all", code=1)
    assert len(wait_for_letters(vigil, 1)) == 1
    run_command(vigil, "discard", "--all", "--yes")
    assert "no dead letters" in run_command(vigil, "list").lower()
    assert "no dead letters" in run_command(vigil, "retry", "--all").lower()


def _stored_again(vigil: Installation, letter_id: str, stored_at: str) -> bool | None:
    matches = [
        dead_letter
        for dead_letter in vigil.json("dead-letters", "list")
        if dead_letter["id"] == letter_id
    ]
    return (bool(matches) and matches[0]["stored_at"] != stored_at) or None
