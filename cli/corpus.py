"""Looks at a corpus before anything is started, so that what is wrong with it is told first."""

import os
from dataclasses import dataclass
from pathlib import Path

from cli.errors import BadInputError
from cli.outside import DEFAULT_CORPUS
from sandbox.corpus import CorpusError, fingerprint, load


@dataclass(frozen=True)
class CheckedCorpus:
    """What there is to read. Counts are None for the default corpus, which is not read here."""

    documents: int | None = None
    skipped: str | None = None
    """The unknown files that are passed over, in words."""


def chosen_corpus(corpus: Path | None) -> Path | None:
    """The folder that was named; None where none was, or the default corpus by its name."""
    if corpus is None or str(corpus) == DEFAULT_CORPUS:
        return None
    return corpus.expanduser().absolute()


def check_corpus(corpus: str) -> CheckedCorpus:
    """Raises BadInputError where the sandbox could not read it."""
    try:
        if corpus == DEFAULT_CORPUS:
            fingerprint(corpus)
            return CheckedCorpus()
        loaded = load(Path(corpus))
    except CorpusError as error:
        raise BadInputError(str(error)) from error
    skipped = ", ".join(f"{count} {kind}" for kind, count in loaded.report.skipped.items())
    return CheckedCorpus(len(loaded.documents), skipped or None)


def corpus_cache() -> Path:
    """Where indexes of corpora are kept, to be built once; nothing is lost with it."""
    home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (home if home.is_absolute() else Path.home() / ".cache") / "vigil" / "corpora"
