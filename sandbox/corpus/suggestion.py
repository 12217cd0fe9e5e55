"""A mission for a corpus, from the words and names that many of its documents have."""

from collections import Counter
from collections.abc import Iterable, Iterator

from sandbox.corpus.documents import Document
from sandbox.text.english import is_plural, join_with_and
from sandbox.text.language import ENGLISH, language_of
from sandbox.text.names import NameFinder
from sandbox.text.sentences import is_prose, sentences
from sandbox.text.tokens import fold, is_significant, stem, word_set, words

MAX_SENTENCES = 40
"""How many sentences of a document count."""
MIN_WORD_CHARS = 5
MAX_NOUNS = 2
MIN_DOCUMENTS = 2
USUAL = word_set(
    """
    always cases chapters contents copies differences examples exists files instances kinds lines links lists notes numbers
    others pages parts parties points problems purposes questions reasons rights sections steps terms tests times types users
    values versions warranties words works years
    """
)
"""Plurals that many documents have, whatever they are about."""
GENERAL = "Watch what these documents report, and find out what is important"
PURPOSE = "and find out what is important"


def suggest_mission(documents: Iterable[Document]) -> str:
    """A mission such as `Watch indexes and tables of PostgreSQL, and find out what is important`."""
    texts = [list(_prose(document)) for document in documents]
    texts = [text for text in texts if text]
    nouns, names = _nouns(texts), _names(texts)
    if nouns and names:
        return f"Watch {join_with_and(nouns)} of {names[0]}, {PURPOSE}"
    if nouns or len(names) > 1:
        return f"Watch {join_with_and(nouns or names[:MAX_NOUNS])}, {PURPOSE}"
    return f"Watch {names[0]}, {PURPOSE}" if names else GENERAL


def _prose(document: Document) -> Iterator[str]:
    if language_of(document.text) == ENGLISH:
        prose = (sentence for sentence in sentences(document.text) if is_prose(sentence))
        for sentence, _ in zip(prose, range(MAX_SENTENCES), strict=False):
            yield sentence


def _nouns(texts: list[list[str]]) -> list[str]:
    """The plural nouns that most documents have."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(
            {
                word
                for sentence in text
                for word in words(sentence)
                if word.islower() and word.isalpha() and _is_telling(word)
            }
        )
    return [word for word, count in counts.most_common() if count >= MIN_DOCUMENTS][:MAX_NOUNS]


def _is_telling(word: str) -> bool:
    return (
        len(word) >= MIN_WORD_CHARS
        and is_plural(word)
        and is_significant(word)
        and word not in USUAL
        and stem(word).endswith(NOUN_ENDINGS)
    )


NOUN_ENDINGS = tuple(
    word_set(
        "age al ance ant ce ct cy dex ee ence er ess gram ice ing ion ism ist ity le ment ne or ory ry ship sor sure tem th "
        "ty ure"
    )
)
"""Endings of words that are rarely verbs, so that `packages` is chosen and `means` is not."""


def _names(texts: list[list[str]]) -> list[str]:
    """The names that most documents have, without those inside longer ones before them; in a small corpus any names."""
    finder = NameFinder("\n".join(text) for text in texts)
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update({name.text for sentence in text for name in finder.find(sentence)})
    is_small = max(counts.values(), default=0) < MIN_DOCUMENTS
    names: list[str] = []
    for name, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        if (is_small or count >= MIN_DOCUMENTS) and not any(
            fold(name) in fold(other) for other in names
        ):
            names.append(name)
    return names
