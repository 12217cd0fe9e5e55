"""Addresses allowed for webhooks: public ones, private ones if configured, and others never."""

import random
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any, Final

import pytest

from shared.errors import PermanentError
from shared.fetch.addresses import refusal
from shared.notifications.webhooks import validate_url
from tests.support.case_files import read_cases

CASES = read_cases(__file__)

PUBLIC = ("8.8.8.8", "93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808")
PRIVATE = CASES["private"]
FORBIDDEN = CASES["forbidden"]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address: str) -> None:
    assert refusal(ip_address(address), private=False) is None
    assert refusal(ip_address(address), private=True) is None


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_allowed_only_if_configured(address: str) -> None:
    assert refusal(ip_address(address), private=False) is not None
    assert refusal(ip_address(address), private=True) is None


@pytest.mark.parametrize("address", FORBIDDEN)
def test_forbidden_addresses_are_never_allowed(address: str) -> None:
    assert refusal(ip_address(address), private=False) is not None
    assert refusal(ip_address(address), private=True) is not None


@pytest.mark.parametrize("url", CASES["a_valid_url_is_returned_unchanged"])
def test_a_valid_url_is_returned_unchanged(url: str) -> None:
    assert validate_url(url, private=False) == url.strip()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://example.org/", "https://"),
        ("file:///etc/passwd", "https://"),
        ("example.org/hook", "https://"),
        ("https:///hook", "https://"),
        ("", "https://"),
        ("https://user:secret@example.org/", "must not contain a user name or password"),
        ("https://user@example.org/", "must not contain a user name or password"),
        ("https://example.org/#part", "fragment"),
        ("https://example.org:port/", "cannot be read"),
        ("https://example.org:99999/", "cannot be read"),
        ("https://[::1/", "cannot be read"),
        ("http://0177.0.0.1/", "cannot be read"),
        ("https://exam ple.org/", "no spaces"),
        ("https://example.org/\r\nhost: x", "no spaces"),
        ("https://exämple.org/", "ASCII"),
        ("https://example.org/" + "a" * 2000, "2000"),
        ("http://127.0.0.1:5432/", "127.0.0.1"),
        ("http://localhost/", "localhost"),
        ("http://db.localhost/", "localhost"),
        ("http://[::1]/", "::1"),
        ("http://169.254.169.254/latest/meta-data", "169.254.169.254"),
        ("http://[fe80::1%25eth0]/", "fe80"),
    ],
)
def test_an_invalid_url_is_refused_with_the_reason(url: str, reason: str) -> None:
    with pytest.raises(PermanentError, match=".*".join(reason.split("*"))) as error:
        validate_url(url, private=False)
    assert error.value.code == "webhook_url"
    assert "secret" not in str(error.value)


def test_localhost_is_allowed_if_configured() -> None:
    for url in ("http://127.0.0.1:9/", "http://localhost/", "http://10.0.0.1/"):
        assert validate_url(url, private=True) == url
    with pytest.raises(PermanentError, match=r"169\.254"):
        validate_url("http://169.254.169.254/", private=True)


WRAPPINGS: Final[dict[str, Callable[[Any], str]]] = {
    "IPv4-mapped": lambda inner: f"::ffff:{inner}",
    "IPv4-compatible": lambda inner: f"::{inner}",
    "NAT64": lambda inner: f"64:ff9b::{inner}",
    "6to4": lambda inner: str(IPv6Address((0x2002 << 112) | (int(inner) << 80))),
    "Teredo": lambda inner: str(IPv6Address((0x20010000 << 96) | (int(inner) ^ 0xFFFF_FFFF))),
}
REFUSED_NETWORKS = CASES["refused_networks"]


@pytest.mark.parametrize("network", REFUSED_NETWORKS)
def test_every_form_of_an_internal_address_is_refused(network: str, seed: int) -> None:
    rng = random.Random(seed)
    ip_range = ip_network(network)
    edges = [ip_range.network_address, ip_range.broadcast_address]
    for inner in [*edges, *(ip_range[rng.randrange(ip_range.num_addresses)] for _ in range(200))]:
        assert refusal(inner, private=False) is not None, inner
        for form, wrap in WRAPPINGS.items():
            address = ip_address(wrap(inner))
            assert refusal(address, private=False) is not None, f"{form} {address}"
