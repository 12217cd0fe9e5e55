"""What has happened since the last plan, as queries."""

import re
from collections.abc import Iterator

from sandbox.model.graph_view import GraphView
from sandbox.model.observe.gaps import Gap, nearest_topic
from sandbox.text.missions import Subject
from sandbox.text.tokens import topic_stems

NEW_DOCUMENT = re.compile(r"^- new document: (?:(?P<title>.+): )?(?P<url>https?://\S+)$")


def new_documents(subject: Subject, view: GraphView, news: str) -> Iterator[Gap]:
    """The new documents whose title shares a word with the mission or with the name of a node."""
    known = topic_stems(" ".join([*subject.terms(), *(node.name for node in view.nodes)]))
    for line in news.splitlines():
        match = NEW_DOCUMENT.match(line)
        if match is None or not match["title"] or known.isdisjoint(topic_stems(match["title"])):
            continue
        topic = nearest_topic(subject, match["title"])
        about = f" about {topic}" if topic else ""
        yield Gap(
            f"Read {match['url']} and find out what it says{about}",
            "The document is new",
            (match["title"],),
        )
