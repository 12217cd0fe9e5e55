"""Addresses of the mail server: an unencoded password never becomes a host, and is never shown."""

import pytest

from shared.errors import PermanentError
from shared.notifications.mail_server import MailServer
from shared.runtime.settings import Settings, load_settings

CASES = [
    ("smtp://127.0.0.1:2525", ("127.0.0.1", 2525, None, None)),
    ("smtp://mail.example", ("mail.example", 587, None, None)),
    ("smtps://mail.example/", ("mail.example", 465, None, None)),
    ("SMTP://Mail.example", ("mail.example", 587, None, None)),
    ("smtp://me:secret@mail.example:25", ("mail.example", 25, "me", "secret")),
    (
        "smtp://me%40a.example:p%40ss%2Fw%23rd@mail.example",
        ("mail.example", 587, "me@a.example", "p@ss/w#rd"),
    ),
    ("smtp://me:a:b;c=d!@mail.example", ("mail.example", 587, "me", "a:b;c=d!")),
    ("smtp://me:pässwörd@mail.example", ("mail.example", 587, "me", "pässwörd")),
    ("smtp://me:secret@[::1]:25", ("::1", 25, "me", "secret")),
]
REFUSED = [
    "smtp://user:QQ@ZZ/w#rd@127.0.0.1:2525",
    "smtp://user:QQ@ZZ@mail.example",
    "smtp://user:QQ/ZZ@mail.example",
    "smtp://user:25/ZZ@mail.example",
    "smtp://user:25/@ZZ",
    "smtp://user:QQ#ZZ@mail.example",
    "smtp://user:25#ZZ@mail.example",
    "smtp://user:QQ?ZZ@mail.example",
    "smtp://user:25?ZZ@mail.example",
    "smtp://user:QQ%ZZ@mail.example",
    "smtp://user:QQ ZZ@mail.example",
    "smtp://user:QQ\tZZ@mail.example",
    "smtp://user:QQ\\ZZ@mail.example",
    "smtp://user:QQ[ZZ@mail.example",
    "smtp://user:QQ]ZZ@mail.example",
    "smtp://mail.example/path",
    "smtp://mail.example?query",
    "smtp://mail.example#fragment",
    "smtp://mail.example:99999",
    "smtp://",
    "http://mail.example",
    "garbage",
]


@pytest.mark.parametrize(("url", "parts"), CASES)
def test_an_address_is_read(url: str, parts: tuple[str, int, str | None, str | None]) -> None:
    server = MailServer.from_url(url)
    assert (server.host, server.port, server.user, server.password) == parts
    assert "secret" not in server.location


@pytest.mark.parametrize("url", REFUSED)
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


@pytest.mark.parametrize(
    ("url", "is_accepted"),
    [
        ("https://vigil.example", True),
        ("http://127.0.0.1:8080/", True),
        ("http://[::1]:8080", True),
        ("https://vigil.example/vigil", False),
        ("https://vigil.example/?a=b", False),
        ("https://user@vigil.example", False),
        ("vigil.example", False),
        ("ftp://vigil.example", False),
    ],
)
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
