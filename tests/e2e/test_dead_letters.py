"""`vigil dead-letters` as a person uses it, on a whole installation."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import pytest

from cli.cluster.keys import Keys
from shared.events.permissions import inbox_prefix
from tests.support.e2e.installation import MISSION, Installation, installed
from tests.support.levers import Sandbox
from tests.support.waiting import waited_for

UNREADABLE = b"\x00\xff junk"
FUTURE = b'{"type": "vigil.query.v2.requested"}'


@pytest.fixture
def vigil(tmp_path: Path, sandbox: str) -> Iterator[Installation]:
    """One whose model and search service are a sandbox that the test can break."""
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


async def say(vigil: Installation, *payloads: bytes) -> None:
    """As the one that may publish it."""
    shown = Keys(vigil.data.keys, private=True).login_of("observer")
    client = await nats.connect(
        vigil.running.nats_url,
        user=shown["nats_user"],
        password=shown["nats_password"],
        inbox_prefix=inbox_prefix("observer"),
    )
    for payload in payloads:
        await client.jetstream().publish("query.requested", payload)
    await client.close()


def letters(vigil: Installation, number: int) -> list[dict[str, Any]]:
    """All of them, once there are so many."""

    def look() -> list[dict[str, Any]] | None:
        found: list[dict[str, Any]] = vigil.json("dead-letters", "list")
        return found if len(found) == number else None

    return waited_for(look, f"{number} dead letters")


def told(vigil: Installation, *arguments: str, code: int = 0) -> str:
    done = vigil.vigil("dead-letters", *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def test_poison_and_failed_steps_from_their_first_sight_to_their_end(
    vigil: Installation, sandbox: str
) -> None:
    assert "no dead letters" in told(vigil, "list")
    asyncio.run(say(vigil, UNREADABLE, FUTURE))
    by_code = {letter["code"]: letter for letter in letters(vigil, 2)}
    future = by_code["unknown_event"]["id"]
    assert "does not know version 2 of query.requested" in told(vigil, "show", future[:8])
    assert "00 ff 20 6a" in told(vigil, "show", by_code["unreadable_event"]["id"])
    assert future[:8] in told(vigil, "list", "--actor", "researcher")

    stored_at = by_code["unknown_event"]["stored_at"]
    assert "will be published again" in told(vigil, "retry", future[:8])
    waited_for(lambda: _kept_again(vigil, future, stored_at), "the letter to come back")
    assert "is discarded" in told(vigil, "discard", future[:8])

    Sandbox(sandbox).faults(
        {"kind": "status", "status": 401, "phase": "knowledge_acquisition", "nth": 1}
    )
    vigil.vigil("agent", "create", MISSION, "--name", "Batteries", "--interval", "1d")
    vigil.ended_iteration("Batteries", 1)
    of_step = next(letter for letter in letters(vigil, 2) if letter["step"])
    assert (of_step["code"], of_step["step"]["agent_name"]) == ("llm_key", "Batteries")
    assert "retry" in told(vigil, "show", of_step["id"][:8])
    told(vigil, "retry", of_step["id"])
    (left,) = letters(vigil, 1)
    assert left["code"] == "unreadable_event"

    assert "There is no dead letter 'zzz'" in told(vigil, "retry", left["id"], "zzz", code=1)
    assert "name the dead letters" in told(vigil, "discard", code=2)
    assert "Discard the one dead letter?" in told(vigil, "discard", "--all", code=1)
    assert len(letters(vigil, 1)) == 1
    told(vigil, "discard", "--all", "--yes")
    assert "no dead letters" in told(vigil, "list").lower()
    assert "no dead letters" in told(vigil, "retry", "--all").lower()


def _kept_again(vigil: Installation, letter_id: str, stored_at: str) -> bool | None:
    found = [each for each in vigil.json("dead-letters", "list") if each["id"] == letter_id]
    return (bool(found) and found[0]["stored_at"] != stored_at) or None
