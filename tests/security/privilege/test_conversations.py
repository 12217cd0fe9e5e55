"""A conversation under each service's own NATS user and Postgres role, with a failed and retried answer."""

from sqlalchemy import select
from structlog.testing import capture_logs

from shared.database.engine import Database
from shared.database.tables import Conversation
from shared.runtime.connections import create_database
from tests.support.conversation.conversing import PHASE
from tests.support.conversation.talk import Talk, completed
from tests.support.factories import make_agent
from tests.support.running_services import running_services
from tests.support.sandbox_control import Sandbox
from tests.support.secured_installation import SecuredInstallation
from tests.support.streams import serving

TERSE = 20
"""Tokens of a conversation: so few that it is summarized at once."""


async def test_a_conversation_runs_under_each_services_user_and_role(
    installation: SecuredInstallation, owner_database: Database, sandbox: str
) -> None:
    service_settings = {
        name: installation.settings(name, sandbox_url=sandbox, conversation_tokens=TERSE)
        for name in ("scheduler", "assistant")
    }
    database = create_database(installation.settings("api"), "api")
    agent = await make_agent(database, name="Talkative", active=False)
    with capture_logs() as lines:
        async with (
            serving(installation.settings("api")) as api,
            running_services(service_settings, tuple(service_settings)),
        ):
            talk = Talk(api, str(agent.id))
            await talk.follow((await talk.says("Please also watch cobalt."))["answer"]["id"])
            [memory] = (await talk.asked("GET", "/memories")).json()["items"]
            assert (await talk.asked("DELETE", f"/memories/{memory['id']}")).status_code == 204
            Sandbox(sandbox).faults({"kind": "status", "phase": PHASE, "status": 401})
            turns = [await talk.says(text) for text in ("What are you doing?", "And your plan?")]
            failed, answered = await completed(talk, [turn["answer"]["id"] for turn in turns])
            assert {failed["status"], answered["status"]} == {"failed", "complete"}
            await talk.asked("POST", f"/conversation/messages/{failed['id']}/retry")
            assert (await talk.follow(failed["id"])).names[-1] == "complete"
    problems = [line for line in lines if line["log_level"] in ("warning", "error")]
    # A new installation waits for its engines, and logs a sign-in link for its owner.
    usual = ("waiting for", "open this link")
    events = [line["event"] for line in problems if not line["event"].startswith(usual)]
    assert events == ["step failed permanently"]
    async with owner_database.transaction() as session:
        summarized = select(Conversation.summarized_turns).where(Conversation.agent_id == agent.id)
        assert (await session.scalar(summarized) or 0) >= 1
    await database.close()
