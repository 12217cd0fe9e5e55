"""Addresses of the mail server: an unencoded password never becomes a host, and is never shown."""

import pytest

from shared.errors import PermanentError
from shared.notifications.mail_server import MailServer
from shared.runtime.settings import Settings, load_settings
from tests.support.case_files import read_cases

CASES = read_cases(__file__)


@pytest.mark.parametrize(("url", "parts"), CASES["addresses"])
def test_an_address_is_read(url: str, parts: list[str | int | None]) -> None:
    server = MailServer.from_url(url)
    assert [server.host, server.port, server.user, server.password] == parts
    assert "secret" not in server.location


@pytest.mark.parametrize("url", CASES["refused"])
def test_an_address_that_cannot_be_meant_is_refused_without_being_shown(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PermanentError, match="percent-encode the password") as refusal:
        MailServer.from_url(url)
    assert refusal.value.__cause__ is None
    monkeypatch.setenv("VIGIL_SMTP_URL", url)
    with pytest.raises(Exception, match="percent-encode the password") as unusable:
        load_settings()
    for text in (str(refusal.value), str(unusable.value)):
        assert "QQ" not in text
        assert "ZZ" not in text


@pytest.mark.parametrize(("url", "is_accepted"), CASES["a_public_url_is_an_origin"])
def test_a_public_url_is_an_origin(
    url: str, is_accepted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIGIL_PUBLIC_URL", url)
    if is_accepted:
        assert load_settings().public_url == url
        return
    with pytest.raises(Exception, match="only scheme, host and port"):
        load_settings()


def test_an_empty_public_url_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIGIL_PUBLIC_URL", "")
    assert Settings().public_url is None
