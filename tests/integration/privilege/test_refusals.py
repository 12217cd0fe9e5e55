"""How a refusal is told, and that provisioning changes nothing that is right."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from shared.errors import PermanentError, TransientError
from shared.events.credentials import Credentials
from shared.events.models import AnalysisProduced
from shared.events.stream_reader import listening
from shared.runtime import bus as bus_module
from shared.runtime.connections import bus_of
from shared.runtime.credentials import credentials_of
from shared.runtime.provision import provision
from tests.support.guarded import Guarded


async def test_what_is_forbidden_is_said_in_the_log(
    closed: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus_module, "PUBLISH_TIMEOUT_SECONDS", 0.5)
    bus = bus_of(closed.settings("researcher"), "researcher")
    await bus.connect()
    event = AnalysisProduced.of(
        agent_id=uuid4(),
        iteration_id=uuid4(),
        step_id=uuid4(),
        occurred_at=datetime.now(UTC),
        analysis_ids=[],
    )
    with (
        capture_logs() as lines,
        pytest.raises(TransientError, match=r"analysis\.produced: it forbids it to researcher"),
    ):
        await bus.publish(event)
    await bus.close()
    said = [line for line in lines if line["event"].startswith("NATS forbids this to researcher")]
    assert [(line["verb"], line["subject"]) for line in said] == [("publish", "analysis.produced")]


async def test_who_shows_a_wrong_password_is_not_let_in_and_says_so(closed: Guarded) -> None:
    wrong = closed.settings("researcher", nats_password="wrong")
    bus = bus_of(wrong, "researcher")
    with (
        capture_logs() as lines,
        pytest.raises(PermanentError, match="does not let researcher in"),
    ):
        await bus.connect()
    await bus.close()
    assert [line["event"] for line in lines] == ["NATS does not let researcher in"]
    assert "wrong" not in str(lines)
    with pytest.raises(TransientError, match="does not let 'researcher' in"):
        async with listening(closed.nats_url, credentials_of(wrong, "researcher")):
            pass
    with pytest.raises(TransientError, match="does not let"):
        async with listening(closed.nats_url, Credentials("nobody")):
            pass


async def test_provisioning_again_changes_nothing(closed: Guarded) -> None:
    before = _policies(closed)
    assert before
    await provision(closed.migrator())
    assert _policies(closed) == before


def _policies(closed: Guarded) -> list[tuple[Any, ...]]:
    with closed.connect("migrate") as owner:
        return owner.execute("select oid, polname from pg_policy order by oid").fetchall()


async def test_provisioning_says_which_key_is_missing(closed: Guarded, tmp_path: Any) -> None:
    settings = closed.migrator().model_copy(update={"keys_dir": tmp_path})
    with pytest.raises(PermanentError, match=r"vigil_database_password.*run `vigil keys`"):
        await provision(settings)
