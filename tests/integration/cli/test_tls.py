"""NATS over TLS, where certificates are given: both sides are sure whom they speak to."""

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from cli.local.nats import EmbeddedNats
from cli.local.ports import free_port
from shared.errors import TransientError
from shared.events.models import QueryFailed
from shared.events.stream_reader import connect_reader, stream_state
from shared.events.topology import STREAM
from shared.runtime.connections import create_bus
from shared.runtime.credentials import build_nats_credentials
from shared.runtime.provision import provision_stream
from shared.runtime.settings import Settings
from tests.support.certificates import Pair, authority, signed

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl, which makes the certificates, is not here"
)


@dataclass(frozen=True)
class Secured:
    url: str
    ca: Pair
    client: Pair

    def settings(self, scheme: str = "tls") -> Settings:
        return Settings(
            nats_url=over(scheme, self.url),
            nats_ca_file=self.ca.certificate,
            nats_cert_file=self.client.certificate,
            nats_key_file=self.client.key,
        )


def over(scheme: str, url: str) -> str:
    return url.replace("nats://", f"{scheme}://")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A server that shows a certificate, asks for its clients', and greets those who do not begin with TLS themselves."""
    home = tmp_path_factory.mktemp("tls")
    ca = authority(home)
    server, client = signed(home, ca, "server"), signed(home, ca, "client")
    tls = {
        "cert_file": str(server.certificate),
        "key_file": str(server.key),
        "ca_file": str(ca.certificate),
        "verify": True,
        "handshake_first": "500ms",
    }
    nats = EmbeddedNats(home / "data", free_port(), home / "log", durable=False, also={"tls": tls})
    nats.start()
    yield Secured(nats.url, ca, client)
    nats.stop()


@pytest.mark.parametrize("scheme", ["nats", "tls"])
async def test_events_are_told_and_read_back_over_tls(secured: Secured, scheme: str) -> None:
    settings = secured.settings(scheme)
    await provision_stream(settings)
    bus = create_bus(settings, "researcher")
    await bus.connect()
    await bus.publish(
        QueryFailed.of(
            agent_id=uuid4(),
            iteration_id=uuid4(),
            step_id=uuid4(),
            occurred_at=datetime.now(UTC),
            error="no answer",
        )
    )
    await bus.close()
    async with connect_reader(
        settings.nats_url, build_nats_credentials(settings, "operator")
    ) as client:
        kept = await stream_state(client)
        await client.jetstream().purge_stream(STREAM)
    assert kept is not None
    assert kept.events == 1


async def test_a_server_that_another_ca_has_signed_is_not_spoken_to(
    secured: Secured, tmp_path: Path
) -> None:
    settings = secured.settings().model_copy(
        update={"nats_ca_file": authority(tmp_path, "another").certificate}
    )
    with pytest.raises(TransientError, match=r"certificate|CERTIFICATE"):
        async with connect_reader(settings.nats_url, build_nats_credentials(settings, "operator")):
            pass


async def test_a_server_without_tls_is_not_even_told_the_password() -> None:
    """Whoever stands between could greet in NATS's name, and leave TLS out of the greeting."""
    heard = bytearray()

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id": "x", "version": "2.12.0", "auth_required": true}\r\n')
        while said := await reader.read(1024):
            heard.extend(said)
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        url = f"tls://127.0.0.1:{port}"
        settings = Settings.model_validate({"nats_url": url, "nats_password": "hidden"})
        with pytest.raises(TransientError):
            async with connect_reader(url, build_nats_credentials(settings, "operator")):
                pass
    assert heard
    assert b"hidden" not in heard


async def test_a_client_without_a_certificate_is_not_let_in(secured: Secured) -> None:
    settings = secured.settings().model_copy(update={"nats_cert_file": None})
    with pytest.raises(TransientError):
        async with connect_reader(settings.nats_url, build_nats_credentials(settings, "operator")):
            pass
