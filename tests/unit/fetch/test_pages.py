"""A page counts as changed if its content has changed; feeds are read whatever their format."""

import pytest

from shared.fetch.client import Fetched, FetchError
from shared.fetch.feeds import MAX_ENTRIES, FeedEntry, parse_feed
from shared.fetch.pages import MAX_FEEDS, page_content
from tests.support.case_files import read_cases

CASES = read_cases(__file__)

URL = "https://example.org/news/page"


def digest(html: str, media_type: str = "text/html", charset: str | None = None) -> bytes:
    return page_content(Fetched(URL, html.encode(), media_type, charset)).digest


BEFORE = """<html><head><title>A</title><script>var t = 1</script></head><body><nav>Home</nav>
<p>Chile produced <b>44,000</b> tonnes.</p><aside>An advertisement</aside>
<form><input name=token value=abc></form><time>5 minutes ago</time></body></html>"""


@pytest.mark.parametrize(("old", "new"), CASES["what_varies_from_visit_to_visit_is_no_change"])
def test_what_varies_from_visit_to_visit_is_no_change(old: str, new: str) -> None:
    assert old in BEFORE
    assert digest(BEFORE.replace(old, new)) == digest(BEFORE)


def test_another_figure_is_a_change() -> None:
    assert digest(BEFORE.replace("44,000", "49,000")) != digest(BEFORE)


def test_of_other_types_every_byte_counts() -> None:
    assert digest("a  b", "text/plain") != digest("a b", "text/plain")


@pytest.mark.parametrize("charset", ["latin-1", "no-such-encoding", "idna", "undefined", None])
def test_any_encoding_is_read(charset: str | None) -> None:
    content = page_content(Fetched(URL, "<p>Zürich</p>".encode("latin-1"), "text/html", charset))
    assert len(content.digest) == 32


@pytest.mark.parametrize(
    "html",
    [
        "<html hidden><body hidden><p>x</p></body></html>",
        "<div>" * 200_000,
        "<div>" * 100_000 + "x" + "</div>" * 100_000,
        "<header><nav><nav><form><input></form></nav></nav></header><p>x</p>",
        '<link rel=alternate type=application/rss+xml href="http://[x">',
        "<p>" * 50_000 + "<br>" * 50_000,
    ],
)
def test_hostile_pages_are_read_in_a_moment(html: str) -> None:
    content = page_content(Fetched(URL, html.encode(), "text/html"))
    assert (len(content.digest), content.feeds) == (32, ())


def test_a_page_that_is_nested_too_deep_is_compared_byte_for_byte() -> None:
    assert digest("<div>" * 4_000 + "a  b") != digest("<div>" * 4_000 + "a b")
    assert digest("<div>" * 2_000 + "a  b") == digest("<div>" * 2_000 + "a b")


def test_two_entries_on_one_page_keep_their_fragments() -> None:
    items = "".join(f"<item><link>https://a.example/log#{row}</link></item>" for row in (1, 2))
    entries = parse_feed(f"<rss><channel>{items}</channel></rss>".encode(), URL)
    assert [entry.url for entry in entries] == [
        "https://a.example/log#1",
        "https://a.example/log#2",
    ]


def test_a_page_that_is_one_form_is_compared_by_its_text() -> None:
    form = "<form><input type=hidden value={}><p>Chile produced {} tonnes.</p></form>"
    assert digest(form.format(1, 44)) == digest(form.format(2, 44))
    assert digest(form.format(1, 44)) != digest(form.format(1, 45))


@pytest.mark.parametrize(
    "href",
    ["http://[x", "javascript:alert(1)", "https://a.example/" + "x" * 3000, "ftp://a.example/"],
)
def test_links_that_lead_nowhere_are_no_feeds_and_no_entries(href: str) -> None:
    link = f'<link rel=alternate type=application/rss+xml href="{href}">'
    assert page_content(Fetched(URL, link.encode(), "text/html")).feeds == ()
    feed = f"<rss><channel><item><link>{href}</link></item></channel></rss>"
    assert parse_feed(feed.encode(), URL) == []


def test_a_page_without_a_body_is_read() -> None:
    assert digest("") == digest("<html></html>")


def test_declared_feeds_are_found() -> None:
    links = "".join(
        f'<link rel="alternate" type="application/{kind}" href="{href}">'
        for kind, href in [
            ("rss+xml", "/feed"),
            ("atom+xml", "https://feeds.example/x"),
            ("rss+xml", "/feed"),
            ("json", "/x.json"),
            ("rss+xml", ""),
        ]
    )
    content = page_content(Fetched(URL, f"<head>{links}</head>".encode(), "text/html"))
    assert content.feeds == ("https://example.org/feed", "https://feeds.example/x")


def test_few_feeds_of_a_page_are_followed() -> None:
    links = "".join(
        f"<link rel=alternate type=application/rss+xml href=/{number}>" for number in range(9)
    )
    assert len(page_content(Fetched(URL, links.encode(), "text/html")).feeds) == MAX_FEEDS


RSS = """<?xml version="1.0"?><!DOCTYPE rss><rss version="2.0"><channel><title>News</title>
<item><title>One &amp; two</title><link>/one</link><guid isPermaLink="false">tag:1</guid></item>
<item><title>Three</title><link>https://example.org/three</link></item>
<item><title>Nothing to identify it</title></item></channel></rss>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><id>x</id><entry><id>urn:1</id><title type="html">A <b>b</b></title>
<link rel="self" href="/self"/><link href="/one"/></entry><entry><id>https://example.org/two</id></entry></feed>"""
RDF = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">
<channel/><item rdf:about="x"><title>One</title><link>https://example.org/one</link></item></rdf:RDF>"""


@pytest.mark.parametrize(
    ("feed", "entries"),
    [
        (
            RSS,
            [
                FeedEntry("tag:1", "https://example.org/one", "One & two"),
                FeedEntry("https://example.org/three", "https://example.org/three", "Three"),
            ],
        ),
        (
            ATOM,
            [
                FeedEntry("urn:1", "https://example.org/one", "A b"),
                FeedEntry("https://example.org/two", "https://example.org/two", ""),
            ],
        ),
        (RDF, [FeedEntry("https://example.org/one", "https://example.org/one", "One")]),
    ],
)
def test_feeds_are_read(feed: str, entries: list[FeedEntry]) -> None:
    assert parse_feed(feed.encode(), "https://example.org/feed") == entries


@pytest.mark.parametrize("feed", CASES["what_is_no_feed_is_refused"])
def test_what_is_no_feed_is_refused(feed: str) -> None:
    with pytest.raises(FetchError):
        parse_feed(feed.encode(), URL)


def test_a_long_feed_is_cut() -> None:
    items = "".join(f"<item><link>/{number}</link></item>" for number in range(MAX_ENTRIES + 50))
    entries = parse_feed(f"<rss><channel>{items}</channel></rss>".encode(), URL)
    assert len(entries) == MAX_ENTRIES
