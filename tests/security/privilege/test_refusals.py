"""How refusals are reported, and that repeated provisioning changes nothing."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from shared.errors import PermanentError, TransientError
from shared.events import stream_reader
from shared.events.credentials import Credentials
from shared.events.models import AnalysisProduced
from shared.events.stream_reader import connect_reader
from shared.runtime import bus as bus_module
from shared.runtime.connections import create_bus
from shared.runtime.credentials import build_nats_credentials
from shared.runtime.provision import provision
from tests.support.secured_installation import SecuredInstallation


async def test_a_forbidden_publication_is_logged(
    installation: SecuredInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus_module, "PUBLISH_TIMEOUT_SECONDS", 0.5)
    bus = create_bus(installation.settings("researcher"), "researcher")
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
    refusals = [
        line for line in lines if line["event"].startswith("NATS denies an operation to researcher")
    ]
    assert [(line["verb"], line["subject"]) for line in refusals] == [
        ("publish", "analysis.produced")
    ]


async def test_a_wrong_password_is_rejected_and_logged(
    installation: SecuredInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_reader, "CONNECT_SECONDS", 1.0)
    wrong = installation.settings("researcher", nats_password="wrong")
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
        async with connect_reader(
            installation.nats_url, build_nats_credentials(wrong, "researcher")
        ):
            pass
    with pytest.raises(TransientError, match="rejects the user"):
        async with connect_reader(installation.nats_url, Credentials("nobody")):
            pass


async def test_provisioning_again_changes_nothing(installation: SecuredInstallation) -> None:
    before = _policies(installation)
    assert before
    await provision(installation.migrator())
    assert _policies(installation) == before


def _policies(installation: SecuredInstallation) -> list[tuple[Any, ...]]:
    with installation.connect("migrate") as owner:
        return owner.execute("select oid, polname from pg_policy order by oid").fetchall()


async def test_provisioning_names_the_missing_key(
    installation: SecuredInstallation, tmp_path: Any
) -> None:
    settings = installation.migrator().model_copy(update={"keys_dir": tmp_path})
    with pytest.raises(PermanentError, match=r"vigil_database_password.*run `vigil keys`"):
        await provision(settings)
