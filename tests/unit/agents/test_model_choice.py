"""How models are named: one, or several that answer in place of the first."""

import pytest

from shared.agents.model_choice import first_model, parse_models
from shared.runtime.settings import InvalidSettingError, load_settings
from tests.support.case_files import read_cases

CASES = read_cases(__file__)


@pytest.mark.parametrize(("text", "names"), CASES["models_are_named_in_their_order"])
def test_models_are_named_in_their_order(text: str, names: list[str]) -> None:
    assert parse_models(text) == tuple(names)
    assert first_model(text) == names[0]


@pytest.mark.parametrize(("text", "reason"), CASES["anything_else_is_refused_with_the_reason"])
def test_anything_else_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_models(text)


def test_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_MODEL", "gpt-x; gpt-y")
    with pytest.raises(InvalidSettingError, match=r"OPENAI_MODEL.*separate several"):
        load_settings()


def test_providers_are_read_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "VIGIL_PROVIDERS", '{"local": {"base_url": "http://127.0.0.1:1/v1", "api_key": "sk-1"}}'
    )
    assert "sk-1" not in repr(load_settings())
    assert load_settings().providers["local"].api == "chat"
    for wrong in ('{"local": {"api_key": "sk-2"}}', '{"a/b": {"base_url": "http://x"}}', "{sk-3"):
        monkeypatch.setenv("VIGIL_PROVIDERS", wrong)
        with pytest.raises(InvalidSettingError, match="VIGIL_PROVIDERS") as caught:
            load_settings()
        assert "sk-" not in str(caught.value)
