"""The markdown document of what was found: sentences as they stand in their sources, and where they stand."""

from math import ceil

from sandbox.reader.acquire.pages import Page
from sandbox.reader.acquire.query import Query
from sandbox.search.passages import sentence_weights
from sandbox.text.labels import parse_label
from sandbox.text.sentences import sentences
from sandbox.text.words import topic_stems

MAX_SOURCES = 8
MAX_SENTENCES = 12
MIN_SENTENCE_CHARS = 12
MIN_SHARED_WORDS = 2
MIN_SHARE_OF_BEST = 0.35
"""Sentences that hold less than this share of the best sentence's weight are left out."""


def write_findings(query: Query, pages: list[Page], troubles: list[str]) -> str:
    """A part for each source that has something on the objective; says so where none has."""
    parts = _parts(query, pages, MIN_SHARED_WORDS) or _parts(query, pages, 1)
    lack = f"Nothing was found for this; searched for: {', '.join(query.hints)}."
    notes = [f"Note: {trouble}" for trouble in troubles]
    heading = f"# {query.objective.rstrip('.')}"
    return "\n\n".join([heading, *(parts[:MAX_SOURCES] or [lack]), *notes])


def _parts(query: Query, pages: list[Page], least: int) -> list[str]:
    """Pages that share so many words with what is wanted; where one must do, only short pages that are about little."""
    found = (_part(page, query, least, best=place == 0) for place, page in enumerate(pages))
    return [part for part in found if part]


def _part(page: Page, query: Query, least: int, *, best: bool) -> str:
    usable = [one for one in dict.fromkeys(sentences(page.text)) if _is_usable(one, page)]
    is_short = len(usable) <= MAX_SENTENCES
    told = [" ".join([page.title, *usable])] if is_short else usable
    least = least if is_short else MIN_SHARED_WORDS
    if not usable or not _bears_on(told, query, least, best=best):
        return ""
    head = [f"## {page.title}", f"Source: {page.url}"]
    if page.published:
        head.append(f"Published: {page.published}")
    found = _relevant(page, usable, topic_stems(query.text))
    return "\n".join([*head, "", *(f"- {sentence}" for sentence in found)])


def _bears_on(told: list[str], query: Query, least: int, *, best: bool) -> bool:
    """Whether one sentence holds half the words of a hint, and `least`; of the best page, `least` of any words wanted.

    A short page counts as one sentence.
    """
    hints = [" ".join(query.hints)] if best else query.hints
    wanted = [topic_stems(hint) for hint in hints]
    found = [topic_stems(one) for one in told]
    for stems in wanted:
        enough = least if best else max(least, ceil(len(stems) / 2))
        if any(len(stems & one) >= min(enough, len(stems)) for one in found):
            return True
    return False


def _relevant(page: Page, usable: list[str], wanted: frozenset[str]) -> list[str]:
    """The sentences that hold most of what is wanted, in their order; a short page is taken whole."""
    if page.whole and len(usable) <= MAX_SENTENCES:
        return usable
    weights = dict(zip(usable, sentence_weights(usable, wanted), strict=True))
    best = sorted(usable, key=lambda one: -weights[one])[:MAX_SENTENCES]
    floor = weights[best[0]] * MIN_SHARE_OF_BEST
    return [
        one
        for one in usable
        if one in set(best) and (weights[one] >= floor or _is_named(one, wanted))
    ]


def _is_named(sentence: str, wanted: frozenset[str]) -> bool:
    """Whether it states a fact whose label holds a word that is wanted."""
    line = parse_label(sentence)
    return line is not None and not wanted.isdisjoint(topic_stems(line.label))


def _is_usable(sentence: str, page: Page) -> bool:
    line = parse_label(sentence)
    is_note = sentence.startswith("note") or (line is not None and line.is_note)
    return len(sentence) >= MIN_SENTENCE_CHARS and sentence != page.title and not is_note
