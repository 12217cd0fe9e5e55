"""A webhook reaches the address that was checked, and no other, whatever names come to mean."""

import ssl
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest
from structlog.testing import capture_logs

from cli.local.ports import free_port
from services.notifier.channels import (
    UNREACHED,
    CheckedTransport,
    RefusedAddressError,
    Resolve,
    resolver,
)
from shared.database.engine import Database
from shared.database.tables import Agent
from shared.notifications.addresses import Address
from shared.runtime.settings import Settings
from tests.support.actors import running
from tests.support.certificates import authority, signed
from tests.support.notifier.rows import attempted, make_items, make_webhook
from tests.support.receiver import Receiver, answer, open_receiver


class Names:
    """A name server of the test's own: each look-up is given the next answer, the last of them for ever."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, host: str, port: int) -> Sequence[Address]:
        self.asked.append((host, port))
        found = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return [ip_address(each) for each in found]


async def post(url: str, resolve: Resolve, *, private: bool) -> httpx.Response:
    transport = CheckedTransport(resolve, private=private)
    async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
        return await client.post(url, content=b"{}")


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "127.1",
        "2130706433",
        "0x7f000001",
        "[::1]",
        "[::ffff:127.0.0.1]",
    ],
)
async def test_this_machine_is_refused_however_it_is_written(receiver: Receiver, host: str) -> None:
    with pytest.raises((RefusedAddressError, httpx.ConnectError)):
        await post(receiver.url(host=host), resolver(1), private=False)
    assert receiver.hits == []


@pytest.mark.parametrize(
    "means",
    [
        ["127.0.0.1"],
        ["10.0.0.1", "192.168.1.1"],
        ["169.254.169.254"],
        ["::ffff:127.0.0.1"],
        [],
    ],
)
async def test_a_name_that_means_no_public_address_is_refused(means: list[str]) -> None:
    with pytest.raises(RefusedAddressError, match="VIGIL_WEBHOOK_PRIVATE"):
        await post("http://hook.example/", Names(means), private=False)


async def test_metadata_is_refused_even_where_private_networks_are_allowed() -> None:
    with pytest.raises(RefusedAddressError, match=r"169\.254\.169\.254"):
        await post("http://hook.example/", Names(["169.254.169.254"]), private=True)


async def test_the_address_that_was_checked_is_connected_to(receiver: Receiver) -> None:
    """A name that means another address a moment later is not looked up again."""
    names = Names(["127.0.0.1"], ["169.254.169.254"])
    url = receiver.url(host="rebound.example")
    assert (await post(url, names, private=True)).status_code == 200
    assert names.asked == [("rebound.example", receiver.port)]
    (hit,) = receiver.hits
    assert hit.headers["host"] == f"rebound.example:{receiver.port}"


async def test_of_several_addresses_only_allowed_ones_are_tried(receiver: Receiver) -> None:
    names = Names(["169.254.169.254", "127.0.0.1"])
    assert (await post(receiver.url(host="two.example"), names, private=True)).is_success


async def test_where_one_address_cannot_be_reached_the_next_is(receiver: Receiver) -> None:
    names = Names(["127.0.0.2", "127.0.0.1"])  # nobody listens at the first
    assert (await post(receiver.url(host="two.example"), names, private=True)).is_success
    assert len(receiver.hits) == 1


async def test_where_nobody_listens_that_is_told() -> None:
    with pytest.raises(httpx.ConnectError):
        await post(f"http://a.example:{free_port()}/", Names(["127.0.0.1"]), private=True)


async def test_a_name_that_nobody_knows_is_told() -> None:
    with pytest.raises(httpx.ConnectError, match="cannot be resolved"):
        await post("http://nobody.invalid/", resolver(1), private=True)


async def test_the_certificate_is_checked_against_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca = authority(tmp_path)
    pair = signed(tmp_path, ca, "hook", called="DNS:hook.example")
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
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    assert (await post(receiver.url(), resolver(1), private=True)).is_success


async def test_what_one_receiver_sets_is_not_sent_to_another(
    notifier: Settings, database: Database, agent: Agent, receiver: Receiver
) -> None:
    receiver.says(answer(500, "set-cookie: mine=1; path=/"), answer(500))
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent)
    async with running(notifier, ("notifier",)):
        await attempted(database, 2)
    assert all("cookie" not in hit.headers for hit in receiver.hits)


async def test_a_notifier_that_may_not_reach_private_networks_tells_its_operator(
    notifier: Settings, database: Database, agent: Agent, receiver: Receiver
) -> None:
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent)
    closed = notifier.model_copy(update={"webhook_private": False})
    with capture_logs() as lines:
        async with running(closed, ("notifier",)):
            resting = await attempted(database)
    assert "VIGIL_WEBHOOK_PRIVATE" in repr(lines)
    assert resting.error == UNREACHED
    assert receiver.hits == []
