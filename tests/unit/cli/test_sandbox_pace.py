"""The pace at which the sandbox of a local installation streams its answers."""

import pytest

from cli.config.providers import DEFAULT_SANDBOX_PACE_SECONDS, SANDBOX_PACE, sandbox_pace
from cli.errors import BadInputError


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(None, DEFAULT_SANDBOX_PACE_SECONDS), ("", 0.005), ("0", 0.0), (" 1.5 ", 1.5)],
)
def test_the_environment_sets_the_pace(
    monkeypatch: pytest.MonkeyPatch, value: str | None, seconds: float
) -> None:
    if value is not None:
        monkeypatch.setenv(SANDBOX_PACE, value)
    assert sandbox_pace() == seconds


@pytest.mark.parametrize("value", ["fast", "-1", "nan", "inf", "61"])
def test_an_invalid_pace_ends_the_start_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv(SANDBOX_PACE, value)
    with pytest.raises(
        BadInputError, match="VIGIL_SANDBOX_PACE_SECONDS must be a number of seconds"
    ):
        sandbox_pace()
