"""HTML to plain lines, with the standard library's parser."""

from dataclasses import dataclass
from html.parser import HTMLParser

from sandbox.text.word_set import word_set

BLOCKS = word_set(
    "address article aside blockquote br dd div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header "
    "hr li main nav ol p pre section table tbody td tfoot th thead tr ul"
)
SILENT = frozenset({"script", "style", "noscript", "template", "svg", "title"})
DATE_NAMES = frozenset(
    {
        "article:published_time",
        "date",
        "dc.date",
        "dcterms.date",
        "pubdate",
        "publish-date",
        "datepublished",
    }
)


@dataclass(frozen=True, slots=True)
class HtmlPage:
    """What a page says of itself, and its text, a block a line."""

    title: str
    text: str
    url: str
    published: str


def parse_html(source: str) -> HtmlPage:
    """Never fails: broken markup is read as browsers do, up to its end."""
    parser = _TextParser()
    parser.feed(source)
    parser.close()
    return HtmlPage(
        " ".join("".join(parser.title).split()), parser.text(), parser.url, parser.published
    )


class _TextParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title: list[str] = []
        self.url = ""
        self.published = ""
        self._pieces: list[str] = []
        self._silent: list[str] = []

    def text(self) -> str:
        lines = ("".join(self._pieces)).split("\n")
        return "\n".join(filter(None, (" ".join(line.split()) for line in lines)))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in SILENT:
            self._silent.append(tag)
        elif tag in BLOCKS:
            self._pieces.append("\n")
        self._read_facts(tag, {name: value or "" for name, value in attrs})

    def handle_endtag(self, tag: str) -> None:
        if tag in self._silent:
            while self._silent.pop() != tag:
                continue
        elif tag in BLOCKS:
            self._pieces.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self._pieces.append(data.replace("\n", " "))
        elif self._silent == ["title"]:
            self.title.append(data)

    def _read_facts(self, tag: str, facts: dict[str, str]) -> None:
        name = (facts.get("property") or facts.get("name") or facts.get("itemprop") or "").lower()
        if tag == "link" and facts.get("rel", "").lower() == "canonical":
            self.url = self.url or facts.get("href", "")
        elif tag == "meta" and name == "og:url":
            self.url = self.url or facts.get("content", "")
        elif tag == "meta" and name in DATE_NAMES:
            self.published = self.published or facts.get("content", "")
        elif tag == "time":
            self.published = self.published or facts.get("datetime", "")
