"""How a refusal is told, and that provisioning changes nothing that is right."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from shared.errors import PermanentError, TransientError
from shared.events.credentials import Credentials
from shared.events.models import AnalysisProduced
from shared.events.stream_reader import connect_reader
from shared.runtime import bus as bus_module
from shared.runtime.connections import create_bus
from shared.runtime.credentials import build_nats_credentials
from shared.runtime.provision import provision
from tests.support.guarded import Guarded


async def test_what_is_forbidden_is_said_in_the_log(
    closed: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus_module, "PUBLISH_TIMEOUT_SECONDS", 0.5)
    bus = create_bus(closed.settings("researcher"), "researcher")
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
        pytest.raises(TransientError, match=r"analysis\.produced: researcher may not publish it"),
    ):
        await bus.publish(event)
    await bus.close()
    said = [line for line in lines if line["event"].startswith("NATS denies this to researcher")]
    assert [(line["verb"], line["subject"]) for line in said] == [("publish", "analysis.produced")]


async def test_who_shows_a_wrong_password_is_not_let_in_and_says_so(closed: Guarded) -> None:
    wrong = closed.settings("researcher", nats_password="wrong")
    bus = create_bus(wrong, "researcher")
    with (
        capture_logs() as lines,
        pytest.raises(PermanentError, match="NATS rejects the user researcher"),
    ):
        await bus.connect()
    await bus.close()
    assert [line["event"] for line in lines] == ["NATS rejects the user researcher"]
    assert "wrong" not in str(lines)
    with pytest.raises(TransientError, match="rejects the user 'researcher'"):
        async with connect_reader(closed.nats_url, build_nats_credentials(wrong, "researcher")):
            pass
    with pytest.raises(TransientError, match="rejects the user"):
        async with connect_reader(closed.nats_url, Credentials("nobody")):
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
