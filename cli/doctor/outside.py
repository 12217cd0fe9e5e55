"""The model and the search service: which they are, which keys are set, whether they answer."""

from collections.abc import Iterator
from typing import Final

import httpx

from cli.doctor.finding import Finding, bad, good, note
from cli.outside import Outside
from shared.errors import PermanentError
from shared.runtime.model import prices_of
from shared.runtime.settings import Settings

OPENAI: Final = "https://api.openai.com/v1"
TAVILY: Final = "https://api.tavily.com"
ANSWER_SECONDS: Final = 10.0


def keys(settings: Settings) -> Iterator[Finding]:
    """Whether they are set; never what they are."""
    for variable, key, stands_in in (
        ("OPENAI_API_KEY", settings.openai_api_key, "the sandbox's reader answers"),
        ("TAVILY_API_KEY", settings.tavily_api_key, "the sandbox searches its corpus"),
    ):
        if key is not None:
            yield good(variable, "is set")
        elif variable == "OPENAI_API_KEY" and settings.openai_base_url:
            yield note(
                variable, "is not set, OPENAI_BASE_URL is: that server is used without a key"
            )
        else:
            yield note(variable, f"is not set: {stands_in} in its place")


def model_server(settings: Settings, outside: Outside) -> Finding:
    name = "model server"
    if outside.model is None:
        return note(name, "the sandbox stands in", "set OPENAI_API_KEY, or OPENAI_BASE_URL")
    base = (settings.openai_base_url or OPENAI).rstrip("/")
    key = settings.openai_api_key
    answer = _ask(f"{base}/models", key.get_secret_value() if key else None)
    if isinstance(answer, str):
        return bad(
            name, f"{base} does not answer: {answer}", "check OPENAI_BASE_URL and the network"
        )
    if answer.status_code in (401, 403):
        return bad(name, f"{base} refuses the key", "check OPENAI_API_KEY")
    if answer.is_error:
        return bad(name, f"{base}/models answers {answer.status_code}", "check OPENAI_BASE_URL")
    names = _model_names(answer)
    if names and settings.model not in names:
        listed = ", ".join(sorted(names)[:5])
        return bad(
            name,
            f"{base} has no model {settings.model!r}",
            f"set OPENAI_MODEL to one of: {listed} …",
        )
    return good(name, f"{base} answers; model {settings.model}")


def embedding_price(settings: Settings, model: str | None) -> Iterator[Finding]:
    """Nothing where it is listed: by this shell's prices, which an installation elsewhere may have others than."""
    if model is None:
        return
    name = f"price of {model}"
    try:
        prices = prices_of(settings)
    except PermanentError as error:
        yield bad(name, str(error), "mend the file, or unset VIGIL_PRICES_FILE")
        return
    if prices.listed(model) is None:
        told = (
            f"is not listed: each million tokens counts as ${prices.fallback.input} in the budgets"
        )
        yield note(name, told, f"say it: VIGIL_PRICES='{{\"{model}\": [USD, 0]}}'")


def search_service(settings: Settings, outside: Outside) -> Finding:
    name = "search service"
    if outside.search is None:
        return note(name, "the sandbox stands in", "set TAVILY_API_KEY")
    base = (settings.tavily_base_url or TAVILY).rstrip("/")
    key = settings.tavily_api_key
    answer = _ask(f"{base}/usage", key.get_secret_value() if key else None)
    if isinstance(answer, str):
        return bad(name, f"{base} does not answer: {answer}", "check the network")
    if answer.status_code in (401, 403):
        return bad(name, f"{base} refuses the key", "check TAVILY_API_KEY")
    return good(name, f"{base} answers")


def _ask(url: str, key: str | None) -> httpx.Response | str:
    """The answer, or why there is none."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    try:
        return httpx.get(url, headers=headers, timeout=ANSWER_SECONDS, follow_redirects=True)
    except (httpx.TransportError, httpx.InvalidURL) as error:
        return str(error) or type(error).__name__


def _model_names(answer: httpx.Response) -> set[str]:
    """Empty where the server does not list them as OpenAI does."""
    try:
        return {str(each["id"]) for each in answer.json()["data"]}
    except (ValueError, KeyError, TypeError):
        return set()
