"""NATS over TLS with certificates: server and client verify each other."""

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
from shared.events import stream_reader
from shared.events.models import QueryFailed
from shared.events.stream_reader import connect_reader, stream_state
from shared.events.topology import STREAM
from shared.runtime.connections import create_bus
from shared.runtime.credentials import build_nats_credentials
from shared.runtime.provision import provision_stream
from shared.runtime.settings import Settings
from tests.support.certificates import Pair, authority, sign

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl is needed to make the certificates"
)


@pytest.fixture(autouse=True)
def _short_connect_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client tries to connect until its timeout, also when it is rejected."""
    monkeypatch.setattr(stream_reader, "CONNECT_SECONDS", 1.0)


@dataclass(frozen=True)
class TlsServer:
    url: str
    ca: Pair
    client: Pair

    def settings(self, scheme: str = "tls") -> Settings:
        return Settings(
            nats_url=with_scheme(scheme, self.url),
            nats_ca_file=self.ca.certificate,
            nats_cert_file=self.client.certificate,
            nats_key_file=self.client.key,
        )


def with_scheme(scheme: str, url: str) -> str:
    return url.replace("nats://", f"{scheme}://")


@pytest.fixture(scope="module")
def tls_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsServer]:
    """A server that requires client certificates and greets clients that do not begin with TLS."""
    home = tmp_path_factory.mktemp("tls")
    ca = authority(home)
    server, client = sign(home, ca, "server"), sign(home, ca, "client")
    tls = {
        "cert_file": str(server.certificate),
        "key_file": str(server.key),
        "ca_file": str(ca.certificate),
        "verify": True,
        "handshake_first": "500ms",
    }
    nats = EmbeddedNats(home / "data", free_port(), home / "log", durable=False, also={"tls": tls})
    nats.start()
    yield TlsServer(nats.url, ca, client)
    nats.stop()


@pytest.mark.parametrize("scheme", ["nats", "tls"])
async def test_events_are_published_and_read_back_over_tls(
    tls_server: TlsServer, scheme: str
) -> None:
    settings = tls_server.settings(scheme)
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
        state = await stream_state(client)
        await client.jetstream().purge_stream(STREAM)
    assert state is not None
    assert state.events == 1


async def test_a_server_with_a_certificate_of_another_ca_is_rejected(
    tls_server: TlsServer, tmp_path: Path
) -> None:
    settings = tls_server.settings().model_copy(
        update={"nats_ca_file": authority(tmp_path, "another").certificate}
    )
    with pytest.raises(TransientError, match=r"certificate|CERTIFICATE"):
        async with connect_reader(settings.nats_url, build_nats_credentials(settings, "operator")):
            pass


async def test_a_server_without_tls_does_not_get_the_password() -> None:
    """An attacker in between could greet as NATS and leave TLS out of the greeting."""
    received_bytes = bytearray()

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id": "x", "version": "2.12.0", "auth_required": true}\r\n')
        while chunk := await reader.read(1024):
            received_bytes.extend(chunk)
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        url = f"tls://127.0.0.1:{port}"
        settings = Settings.model_validate({"nats_url": url, "nats_password": "hidden"})
        with pytest.raises(TransientError):
            async with connect_reader(url, build_nats_credentials(settings, "operator")):
                pass
    assert received_bytes
    assert b"hidden" not in received_bytes


async def test_a_client_without_a_certificate_is_rejected(tls_server: TlsServer) -> None:
    settings = tls_server.settings().model_copy(update={"nats_cert_file": None})
    with pytest.raises(TransientError):
        async with connect_reader(settings.nats_url, build_nats_credentials(settings, "operator")):
            pass
