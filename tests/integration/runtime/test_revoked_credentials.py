"""An actor whose NATS user is taken away while it runs says so and ends, for its supervisor to start it anew."""

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
from shared.runtime import consumer as actor_module
from shared.runtime.consumer import ConsumerLostError, MessageConsumer
from shared.runtime.provision import provision_stream
from shared.runtime.settings import Settings
from tests.support.processes import nothing, ready
from tests.support.steps import observer
from tests.support.steps import running as running_actor
from tests.support.waiting import until


class Closed:
    """A NATS that asks for passwords, and may be told other ones."""

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
        """From the next start or reload on, its password is another."""
        (self._keys / name / "vigil_nats_password").unlink()
        self.make_keys()


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Closed]:
    made = Closed(tmp_path)
    made.server.start()
    yield made
    made.server.stop()


def as_user(settings: Settings, closed: Closed, name: str) -> Settings:
    return Settings.model_validate(settings.model_dump() | closed.login(name))


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actor_module, "WATCH_SECONDS", 0.1)
    # What was asked of a server that is gone is awaited for so long.
    monkeypatch.setattr(bus_module, "PUBLISH_TIMEOUT_SECONDS", 1.0)


@pytest.mark.parametrize("how", ["NATS is restarted", "NATS is told to read its users again"])
async def test_an_actor_whose_password_is_revoked_says_so_and_ends(
    settings: Settings, closed: Closed, how: str
) -> None:
    await provision_stream(as_user(settings, closed, "migrate"))
    working = observer(as_user(settings, closed, "observer"), nothing)
    with capture_logs() as lines:
        task = asyncio.create_task(working.run())
        await until(lambda: ready(working), what="the actor to be ready")
        closed.revoke("observer")
        if how == "NATS is restarted":
            closed.server.stop()
            closed.server.start()
        else:
            os.kill(closed.server.pid, signal.SIGHUP)
        with pytest.raises(ConsumerLostError, match=r"now rejects the user observer.*compare"):
            await asyncio.wait_for(task, 20)
    assert closed.login("observer")["nats_password"] not in str(lines)
    await once_more(settings, closed)


async def once_more(settings: Settings, closed: Closed) -> None:
    """What the supervisor starts is let in with the new password, and not with the old."""
    again = observer(as_user(settings, closed, "observer"), nothing)
    async with running_actor(again):
        await until(lambda: ready(again), what="the actor to be ready again")
    wrong = as_user(settings, closed, "observer").model_copy(update={"nats_user": "scheduler"})
    with pytest.raises(PermanentError, match="rejects the user scheduler"):
        await observer(wrong, nothing).run()


async def test_an_actor_rides_out_a_restart_that_leaves_it_its_password(
    settings: Settings, closed: Closed
) -> None:
    await provision_stream(as_user(settings, closed, "migrate"))
    working: MessageConsumer = observer(as_user(settings, closed, "observer"), nothing)
    async with running_actor(working):
        await until(lambda: ready(working), what="the actor to be ready")
        closed.server.stop()
        closed.revoke("researcher")
        closed.server.start()
        await until(lambda: ready(working), what="the actor to be ready again")
