"""A conversation under each one's own NATS user and Postgres role: asked, answered, steered, failed and retried."""

from sqlalchemy import select
from structlog.testing import capture_logs

from shared.database.engine import Database
from shared.database.tables import Conversation
from shared.runtime.connections import create_database
from tests.support.actors import running
from tests.support.conversation.conversing import PHASE
from tests.support.conversation.talking import Talk, completed
from tests.support.guarded import Guarded
from tests.support.levers import Sandbox
from tests.support.making import make_agent
from tests.support.streams import serving

TERSE = 20
"""Tokens of a conversation, so that it is summarized at once."""


async def test_a_conversation_runs_under_its_own_users_and_roles(
    closed: Guarded, ours: Database, sandbox: str
) -> None:
    each = {
        name: closed.settings(name, sandbox_url=sandbox, conversation_tokens=TERSE)
        for name in ("scheduler", "assistant")
    }
    database = create_database(closed.settings("api"), "api")
    agent = await make_agent(database, name="Talkative", active=False)
    with capture_logs() as lines:
        async with serving(closed.settings("api")) as api, running(each, tuple(each)):
            talk = Talk(api, str(agent.id))
            await talk.hears((await talk.says("Please also watch cobalt."))["answer"]["id"])
            [memory] = (await talk.asked("GET", "/memories")).json()["items"]
            assert (await talk.asked("DELETE", f"/memories/{memory['id']}")).status_code == 204
            Sandbox(sandbox).faults({"kind": "status", "phase": PHASE, "status": 401})
            turns = [await talk.says(text) for text in ("What are you doing?", "And your plan?")]
            failed, answered = await completed(talk, [turn["answer"]["id"] for turn in turns])
            assert {failed["status"], answered["status"]} == {"failed", "complete"}
            await talk.asked("POST", f"/conversation/messages/{failed['id']}/retry")
            assert (await talk.hears(failed["id"])).names[-1] == "complete"
    wrong = [line for line in lines if line["log_level"] in ("warning", "error")]
    # A new installation waits for its engines, and tells its owner how to sign in.
    usual = ("waiting for", "open this link")
    told = [line["event"] for line in wrong if not line["event"].startswith(usual)]
    assert told == ["step failed for good"]
    async with ours.transaction() as session:
        summarized = select(Conversation.summarized_turns).where(Conversation.agent_id == agent.id)
        assert (await session.scalar(summarized) or 0) >= 1
    await database.close()
