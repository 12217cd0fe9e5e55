"""A service whose NATS password is revoked reports it and exits, so that its supervisor restarts it."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from cli.cluster.keys import Keys
from cli.local.nats import EmbeddedNats
from cli.local.ports import free_port
from shared.errors import PermanentError
from shared.runtime import bus as bus_module
from shared.runtime import consumer as service_module
from shared.runtime.consumer import ConsumerLostError, MessageConsumer
from shared.runtime.provision import provision_stream
from shared.runtime.settings import Settings
from tests.support.marks import slow
from tests.support.processes import nothing, ready
from tests.support.steps import observer, running_service
from tests.support.waiting import wait_until


class AuthenticatedNats:
    """A NATS server with passwords that the test can change."""

    def __init__(self, home: Path) -> None:
        self._keys = home / "keys"
        self.make_keys()
        self.server = EmbeddedNats(
            home / "nats",
            free_port(),
            home / "nats.log",
            durable=False,
            include=self._keys / "nats" / "users.conf",
        )

    def make_keys(self) -> None:
        Keys(self._keys).make(postgres_password_file=None, routes=[])

    def login(self, name: str) -> dict[str, Any]:
        password = (self._keys / name / "vigil_nats_password").read_text()
        return {"nats_url": self.server.url, "nats_user": name, "nats_password": password}

    def revoke(self, name: str) -> None:
        """Changes the user's password, from the next start or reload on."""
        (self._keys / name / "vigil_nats_password").unlink()
        self.make_keys()


@pytest.fixture
def authenticated_nats(tmp_path: Path) -> Iterator[AuthenticatedNats]:
    nats = AuthenticatedNats(tmp_path)
    nats.server.start()
    yield nats
    nats.server.stop()


def as_user(settings: Settings, authenticated_nats: AuthenticatedNats, name: str) -> Settings:
    return Settings.model_validate(settings.model_dump() | authenticated_nats.login(name))


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "WATCH_SECONDS", 0.1)
    # A request to a stopped server waits for so long.
    monkeypatch.setattr(bus_module, "PUBLISH_TIMEOUT_SECONDS", 1.0)


@pytest.mark.parametrize("how", ["NATS reloads its users", *slow("NATS is restarted")])
async def test_a_service_whose_password_is_revoked_reports_it_and_exits(
    settings: Settings, authenticated_nats: AuthenticatedNats, how: str
) -> None:
    await provision_stream(as_user(settings, authenticated_nats, "migrate"))
    consumer = observer(as_user(settings, authenticated_nats, "observer"), nothing)
    with capture_logs() as lines:
        task = asyncio.create_task(consumer.run())
        await wait_until(lambda: ready(consumer), what="the service to be ready")
        authenticated_nats.revoke("observer")
        if how == "NATS is restarted":
            authenticated_nats.server.stop()
            authenticated_nats.server.start()
        else:
            os.kill(authenticated_nats.server.pid, signal.SIGHUP)
        with pytest.raises(ConsumerLostError, match=r"now rejects the user observer.*compare"):
            await asyncio.wait_for(task, 20)
    assert authenticated_nats.login("observer")["nats_password"] not in str(lines)
    await assert_restartable(settings, authenticated_nats)


async def assert_restartable(settings: Settings, authenticated_nats: AuthenticatedNats) -> None:
    """A restarted service connects with the new password; another user's password is rejected."""
    consumer = observer(as_user(settings, authenticated_nats, "observer"), nothing)
    async with running_service(consumer):
        await wait_until(lambda: ready(consumer), what="the service to be ready again")
    wrong = as_user(settings, authenticated_nats, "observer").model_copy(
        update={"nats_user": "scheduler"}
    )
    with pytest.raises(PermanentError, match="rejects the user scheduler"):
        await observer(wrong, nothing).run()


async def test_a_service_reconnects_after_a_restart_that_keeps_its_password(
    settings: Settings, authenticated_nats: AuthenticatedNats
) -> None:
    await provision_stream(as_user(settings, authenticated_nats, "migrate"))
    consumer: MessageConsumer = observer(as_user(settings, authenticated_nats, "observer"), nothing)
    async with running_service(consumer):
        await wait_until(lambda: ready(consumer), what="the service to be ready")
        authenticated_nats.server.stop()
        authenticated_nats.revoke("researcher")
        authenticated_nats.server.start()
        await wait_until(lambda: ready(consumer), what="the service to be ready again")
