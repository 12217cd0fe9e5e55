"""Domains that an owner prefers or bars, and which pages are of them."""

import pytest
from pydantic import TypeAdapter, ValidationError

from shared.agents.fields import Domains
from shared.domains import (
    MAX_DOMAINS,
    DomainPreferences,
    covering_domain,
    host_of,
    normalize_domain,
    site_of,
)
from tests.support.case_files import read_cases

CASES = read_cases(__file__)


@pytest.mark.parametrize(("text", "domain"), CASES["a_domain_is_normalized"])
def test_a_domain_is_normalized(text: str, domain: str) -> None:
    assert normalize_domain(text) == domain


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not a domain"),
        (" ", "is not a domain"),
        ("https://reuters.com", "without https://"),
        ("reuters.com/world", "without https://, path"),
        ("reuters.com:443", "port"),
        ("*.reuters.com", "It covers its subdomains"),
        ("user@reuters.com", "is not a domain"),
        ("reuters.com ft.com", "is not a domain"),
        ("reuters..com", "is not a domain: Empty Label"),
        (".reuters.com", "is not a domain: Empty Label"),
        ("reuters.com..", "is not a domain: Empty Label"),
        ("-reuters.com", "is not a domain: Label must not start"),
        (f"{'x' * 64}.com", "is not a domain: Label too long"),
        ("xn--a.com", "is not a domain"),
        ("reuters\0.com", "is not a domain"),
        ("192.0.2.7", "is an IP address"),
        ("2001:db8::1", "is not a domain"),
        ("com", "'com' is a public suffix"),
        ("co.uk", "'co.uk' is a public suffix"),
        ("localhost", "is a public suffix"),
    ],
)
def test_what_is_no_domain_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        normalize_domain(text)


def test_a_list_has_each_domain_once_and_a_limited_number() -> None:
    domains = TypeAdapter(Domains)
    assert domains.validate_python(["b.com", "A.com", "a.com."]) == ["b.com", "a.com"]
    allowed = [f"site{number}.com" for number in range(MAX_DOMAINS)]
    assert domains.validate_python(allowed) == allowed
    for refused in ([*allowed, "more.com"], ["x" * 300 + ".com"], "a.com", None, [1], ["co.uk"]):
        with pytest.raises(ValidationError):
            domains.validate_python(refused)


@pytest.mark.parametrize("url", CASES["a_page_is_of_a_domain_in_every_spelling_of_its_url"])
def test_a_page_is_of_a_domain_in_every_spelling_of_its_url(url: str) -> None:
    assert DomainPreferences(barred=("reuters.com",)).barring(url) == "reuters.com"


@pytest.mark.parametrize("url", CASES["a_page_of_another_host_is_not_of_the_domain"])
def test_a_page_of_another_host_is_not_of_the_domain(url: str) -> None:
    assert DomainPreferences(barred=("reuters.com",)).barring(url) is None


def test_unicode_and_ascii_forms_of_a_host_are_one() -> None:
    barred = DomainPreferences(barred=(normalize_domain("münchen.de"),))
    for url in ("https://www.münchen.de/x", "https://xn--mnchen-3ya.de", "https://MÜNCHEN.de"):
        assert barred.barring(url) == "xn--mnchen-3ya.de"
    assert host_of("https://a_b.Example/x") == "a_b.example"


def test_a_domain_covers_itself_and_what_is_below_it() -> None:
    domains = ("bbc.co.uk", "a.com")
    assert covering_domain("news.bbc.co.uk", domains) == "bbc.co.uk"
    assert covering_domain("bbc.co.uk", domains) == "bbc.co.uk"
    assert covering_domain("co.uk", domains) is None


@pytest.mark.parametrize(
    ("preferred", "barred", "reason"), CASES["no_domain_is_preferred_and_barred"]
)
def test_no_domain_is_preferred_and_barred(
    preferred: list[str], barred: list[str], reason: str | None
) -> None:
    contradiction = DomainPreferences(preferred, barred).contradiction()
    assert contradiction is None if reason is None else str(contradiction).startswith(reason)


def test_barred_results_are_left_out_and_preferred_ones_come_first() -> None:
    def select(preferences: DomainPreferences) -> list[str]:
        hosts = ("one.org", "ads.a.com", "two.org", "www.a.com", "a.com", "bad.net")
        return [each["url"] for each in preferences.select([{"url": host} for host in hosts])]

    assert select(DomainPreferences()) == [
        "one.org",
        "ads.a.com",
        "two.org",
        "www.a.com",
        "a.com",
        "bad.net",
    ]
    assert select(DomainPreferences(("a.com",), ("ads.a.com", "bad.net"))) == [
        "www.a.com",
        "a.com",
        "one.org",
        "two.org",
    ]


@pytest.mark.parametrize(("url", "site"), CASES["a_site_is_a_registrable_domain"])
def test_a_site_is_a_registrable_domain(url: str, site: str) -> None:
    assert site_of(url) == site


def test_only_pages_that_are_not_barred_count_as_sites() -> None:
    urls = ["https://blog.a.com/x", "https://www.a.com/y", "https://b.com/z"]
    assert DomainPreferences().allowed_sites(urls) == {"a.com", "b.com"}
    assert DomainPreferences(barred=("blog.a.com",)).allowed_sites(urls) == {"a.com", "b.com"}
    assert DomainPreferences(barred=("a.com",)).allowed_sites(urls) == {"b.com"}
