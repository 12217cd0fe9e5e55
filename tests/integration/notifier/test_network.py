"""Deliveries by mail, and over networks that fail or are not allowed."""

import ssl
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from cli.local.ports import free_port
from services.notifier.channels import UNREACHED
from shared.database.engine import Database
from shared.database.tables import Agent
from shared.errors import PermanentError, TransientError
from shared.fetch.addresses import Address
from shared.fetch.transport import CheckedTransport, RefusedAddressError, Resolve, resolver
from shared.notifications import smtp as mailer_module
from shared.notifications.mail_server import MailServer
from shared.notifications.smtp import Mailer, parse_address
from shared.runtime.settings import Settings
from tests.support.case_files import read_cases
from tests.support.certificates import authority, sign
from tests.support.notifier.rows import make_items, make_webhook, wait_for_attempts
from tests.support.running_services import running_services
from tests.support.smtp_server import SmtpServer, run_smtp_server
from tests.support.webhook_server import WebhookReceiver, answer, open_receiver

CASES = read_cases(__file__)

PASSWORD = "p@ss/wörd"
LOGIN = "vigil:p%40ss%2Fw%C3%B6rd"


def mailer(url: str | None, sender: str | None = "Vigil <vigil@example.org>") -> Mailer:
    return Mailer(None if url is None else SecretStr(url), sender)


async def send(box: SmtpServer, *, scheme: str = "smtp", login: str = "", **fields: Any) -> None:
    message = {"to": "you@example.org", "subject": "Advice", "text": "Hold.\n", **fields}
    userinfo = f"{login}@" if login else ""
    await mailer(f"{scheme}://{userinfo}{box.address}").send(**message)


@pytest.fixture
def tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """The context of a server on loopback whose CA this process trusts."""
    ca = authority(tmp_path)
    pair = sign(tmp_path, ca, "postbox")
    monkeypatch.setenv("SSL_CERT_FILE", str(ca.certificate))
    return server_context(pair.certificate, pair.key)


def server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    return context


async def test_a_mail_arrives_as_it_was_written() -> None:
    async with run_smtp_server() as box:
        text = "Halden Cells — hält.\n\n.\nline after a lone dot\n"
        await send(box, subject="HOLD: Müller & Söhne", text=text, message_id="delivery-7")
        (mail,) = box.mails
    assert (mail.sender, mail.recipients) == ("vigil@example.org", ["you@example.org"])
    assert mail.message["Subject"] == "HOLD: Müller & Söhne"
    assert mail.message["From"] == "Vigil <vigil@example.org>"
    assert mail.message["Message-ID"] == "<delivery-7@example.org>"
    assert mail.message["Auto-Submitted"] == "auto-generated"
    assert mail.message.get_content_type() == "text/plain"
    assert mail.text.replace("\r\n", "\n") == text


async def test_two_mails_have_different_message_ids() -> None:
    async with run_smtp_server() as box:
        await send(box)
        await send(box)
        assert len({mail.message["Message-ID"] for mail in box.mails}) == 2


async def test_a_subject_cannot_become_a_header() -> None:
    async with run_smtp_server() as box:
        await send(box, subject="Advice\r\nBcc: other@example.org\r\n\r\nanother text\x00")
        (mail,) = box.mails
    assert mail.message["Bcc"] is None
    assert mail.message["Subject"] == "Advice Bcc: other@example.org another text"
    assert mail.recipients == ["you@example.org"]


async def test_a_recipient_that_is_not_one_address_is_refused(subtests: pytest.Subtests) -> None:
    for recipient in CASES["a_recipient_that_is_not_one_address_is_refused"]:
        with subtests.test(str(recipient)):
            async with run_smtp_server() as box:
                with pytest.raises(PermanentError, match="not an email address") as error:
                    await send(box, to=recipient)
                assert error.value.code == "mail_address"
                assert box.mails == []


def test_an_address_may_have_a_name_before_it() -> None:
    assert parse_address("Vigil <vigil@example.org>").addr_spec == "vigil@example.org"


async def test_starttls_is_used_where_it_is_offered(tls: ssl.SSLContext) -> None:
    async with run_smtp_server(tls=tls) as box:
        await send(box, login=LOGIN)
        (mail,) = box.mails
        assert mail.over_tls
        assert box.logins == [("vigil", PASSWORD)]


async def test_smtps_speaks_tls_from_the_first_byte(tls: ssl.SSLContext) -> None:
    async with run_smtp_server(tls=tls, tls_first=True) as box:
        await send(box, scheme="smtps", login=LOGIN)
        assert len(box.mails) == 1
        assert box.logins == [("vigil", PASSWORD)]


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
async def test_an_untrusted_certificate_is_refused(
    scheme: str, tmp_path: Path, tls: ssl.SSLContext
) -> None:
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    pair = sign(stranger, authority(stranger), "postbox")
    context = server_context(pair.certificate, pair.key)
    async with run_smtp_server(tls=context, tls_first=scheme == "smtps") as box:
        with pytest.raises(PermanentError, match="cannot be trusted") as error:
            await send(box, scheme=scheme, login=LOGIN)
        assert error.value.code == "smtp_settings"
        assert (box.mails, box.logins) == ([], [])


@pytest.mark.parametrize(
    ("host", "user", "start_tls"), CASES["a_password_is_sent_to_another_machine_over_tls_only"]
)
def test_a_password_is_sent_to_another_machine_over_tls_only(
    host: str, user: str | None, start_tls: bool | None
) -> None:
    server = MailServer(host, 587, user, "secret" if user else None, tls_first=False)
    assert server.start_tls is start_tls


Arrange = Callable[[SmtpServer], None]


def _answering(recipient: str = "250 OK", text: str = "250 OK") -> Arrange:
    def arrange(box: SmtpServer) -> None:
        box.answer_to_recipient, box.answer_to_text = recipient, text

    return arrange


@pytest.mark.parametrize(
    ("arrange", "code"),
    [
        (_answering(recipient="451 4.3.0 later"), None),
        (_answering(text="452 4.2.2 no room now"), None),
        (_answering(text="421 4.4.2 closing"), None),
        (_answering(recipient="550 5.1.1 nobody here"), "mail_refused"),
        (_answering(text="554 5.7.1 spam"), "mail_refused"),
    ],
)
async def test_server_replies_are_classified_as_permanent_or_transient(
    arrange: Arrange, code: str | None
) -> None:
    async with run_smtp_server() as box:
        arrange(box)
        with pytest.raises((PermanentError, TransientError)) as error:
            await send(box)
        assert box.mails == []
    assert getattr(error.value, "code", None) == code
    assert any(reply in str(error.value) for reply in ("451", "452", "421", "550", "554"))


async def test_a_refused_login_names_the_setting_and_not_the_password(tls: ssl.SSLContext) -> None:
    async with run_smtp_server(tls=tls) as box:
        box.lets_in = False
        with pytest.raises(PermanentError, match="VIGIL_SMTP_URL") as error:
            await send(box, login=LOGIN)
    assert error.value.code == "smtp_login"
    settings = Settings.model_validate({"smtp_url": f"smtp://{LOGIN}@mail"})
    for output in (str(error.value), repr(error.value), repr(settings)):
        assert PASSWORD not in output
        assert "p%40ss" not in output


async def test_an_unreachable_mail_server_is_a_transient_error() -> None:
    unreachable = mailer(f"smtp://127.0.0.1:{free_port()}")
    with pytest.raises(TransientError, match=r"127\.0\.0\.1"):
        await unreachable.send(to="you@example.org", subject="x", text="x")


async def test_a_silent_mail_server_times_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mailer_module, "SENDING_SECONDS", 0.2)
    async with run_smtp_server() as box:
        box.answer_to_text_seconds = 1.0
        with pytest.raises(TransientError, match="no answer"):
            await send(box)


async def test_without_a_mail_server_nothing_is_sent() -> None:
    off = mailer(None)
    assert not off.enabled
    with pytest.raises(PermanentError, match="VIGIL_SMTP_URL") as error:
        await off.send(to="you@example.org", subject="x", text="x")
    assert error.value.code == "mail_off"


def test_errors_name_invalid_settings_without_their_values(subtests: pytest.Subtests) -> None:
    for url, sender, words in CASES["errors_name_invalid_settings_without_their_values"]:
        with subtests.test(str(url)):
            with pytest.raises(PermanentError, match=words) as error:
                mailer(url, sender)
            assert "hidden" not in str(error.value)


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
