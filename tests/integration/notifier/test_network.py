"""A webhook connects only to the address that was checked, even if the name resolves differently later."""

import ssl
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest
from structlog.testing import capture_logs

from cli.local.ports import free_port
from services.notifier.channels import UNREACHED
from shared.database.engine import Database
from shared.database.tables import Agent
from shared.fetch.addresses import Address
from shared.fetch.transport import CheckedTransport, RefusedAddressError, Resolve, resolver
from shared.runtime.settings import Settings
from tests.support.case_files import read_cases
from tests.support.certificates import authority, sign
from tests.support.notifier.rows import make_items, make_webhook, wait_for_attempts
from tests.support.running_services import running_services
from tests.support.webhook_server import WebhookReceiver, answer, open_receiver

CASES = read_cases(__file__)


class Names:
    """A resolver for tests: each lookup gets the next answer, and the last one is repeated."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.lookups: list[tuple[str, int]] = []

    async def __call__(self, host: str, port: int) -> Sequence[Address]:
        self.lookups.append((host, port))
        addresses = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return [ip_address(address) for address in addresses]


async def post(url: str, resolve: Resolve, *, private: bool) -> httpx.Response:
    transport = CheckedTransport(resolve, private=private, setting="VIGIL_WEBHOOK_PRIVATE")
    async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
        return await client.post(url, content=b"{}")


async def test_loopback_is_refused_in_every_notation(
    receiver: WebhookReceiver, subtests: pytest.Subtests
) -> None:
    for host in CASES["loopback_is_refused_in_every_notation"]:
        with subtests.test(str(host)):
            with pytest.raises((RefusedAddressError, httpx.ConnectError)):
                await post(receiver.url(host=host), resolver(1), private=False)
            assert receiver.hits == []


async def test_a_name_without_a_public_address_is_refused(subtests: pytest.Subtests) -> None:
    for addresses in CASES["a_name_without_a_public_address_is_refused"]:
        with (
            subtests.test(str(addresses)),
            pytest.raises(RefusedAddressError, match="VIGIL_WEBHOOK_PRIVATE"),
        ):
            await post("http://hook.example/", Names(addresses), private=False)


async def test_metadata_is_refused_even_where_private_networks_are_allowed() -> None:
    with pytest.raises(RefusedAddressError, match=r"169\.254\.169\.254"):
        await post("http://hook.example/", Names(["169.254.169.254"]), private=True)


async def test_the_checked_address_is_the_one_connected_to(receiver: WebhookReceiver) -> None:
    """The name is resolved once, though it would resolve to another address a moment later."""
    names = Names(["127.0.0.1"], ["169.254.169.254"])
    url = receiver.url(host="rebound.example")
    assert (await post(url, names, private=True)).status_code == 200
    assert names.lookups == [("rebound.example", receiver.port)]
    (hit,) = receiver.hits
    assert hit.headers["host"] == f"rebound.example:{receiver.port}"


async def test_of_several_addresses_only_allowed_ones_are_tried(receiver: WebhookReceiver) -> None:
    names = Names(["169.254.169.254", "127.0.0.1"])
    assert (await post(receiver.url(host="two.example"), names, private=True)).is_success


async def test_an_unreachable_address_is_followed_by_the_next(receiver: WebhookReceiver) -> None:
    names = Names(["127.0.0.2", "127.0.0.1"])  # nothing listens at the first
    assert (await post(receiver.url(host="two.example"), names, private=True)).is_success
    assert len(receiver.hits) == 1


async def test_a_refused_connection_is_a_connect_error() -> None:
    with pytest.raises(httpx.ConnectError):
        await post(f"http://a.example:{free_port()}/", Names(["127.0.0.1"]), private=True)


async def test_an_unknown_name_is_a_connect_error() -> None:
    with pytest.raises(httpx.ConnectError, match="cannot be resolved"):
        await post("http://nobody.invalid/", resolver(1), private=True)


async def test_the_certificate_is_checked_against_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca = authority(tmp_path)
    pair = sign(tmp_path, ca, "hook", called="DNS:hook.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(ca.certificate))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair.certificate, pair.key)
    async with open_receiver(tls) as secure:
        names = Names(["127.0.0.1"])
        url = secure.url(host="hook.example", scheme="https")
        assert (await post(url, names, private=True)).is_success
        for other in ("other.example", "127.0.0.1"):
            with pytest.raises(httpx.ConnectError, match="certificate"):
                await post(secure.url(host=other, scheme="https"), names, private=True)
        assert len(secure.hits) == 1


async def test_proxies_of_the_environment_are_not_used(
    receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    assert (await post(receiver.url(), resolver(1), private=True)).is_success


async def test_cookies_of_a_receiver_are_never_sent(
    notifier: Settings, database: Database, agent: Agent, receiver: WebhookReceiver
) -> None:
    receiver.respond_with(answer(500, "set-cookie: mine=1; path=/"), answer(500))
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent)
    async with running_services(notifier, ("notifier",)):
        await wait_for_attempts(database, 2)
    assert all("cookie" not in hit.headers for hit in receiver.hits)


async def test_the_log_names_the_setting_that_allows_private_networks(
    notifier: Settings, database: Database, agent: Agent, receiver: WebhookReceiver
) -> None:
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent)
    closed = notifier.model_copy(update={"webhook_private": False})
    with capture_logs() as lines:
        async with running_services(closed, ("notifier",)):
            delivery = await wait_for_attempts(database)
    assert "VIGIL_WEBHOOK_PRIVATE" in repr(lines)
    assert delivery.error == UNREACHED
    assert receiver.hits == []
