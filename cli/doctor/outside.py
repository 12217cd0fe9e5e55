"""The model and the search service: which they are, which keys are set, whether they answer."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import Final

import httpx
from pydantic import SecretStr

from cli.config.providers import Outside
from cli.doctor.finding import Finding, bad, good, note
from shared.errors import PermanentError
from shared.runtime.providers import prices_of
from shared.runtime.settings import Settings

OPENAI: Final = "https://api.openai.com/v1"
TAVILY: Final = "https://api.tavily.com"
ANSWER_SECONDS: Final = 10.0
ASK_SECONDS: Final = 4.0
START_SECONDS: Final = 6.0
"""A start waits for an answer no longer than this."""


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
    base = _model_base(settings)
    answer = _ask_model(settings)
    if isinstance(answer, Finding):
        return answer
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
    answer = _ask_search(settings)
    return (
        answer if isinstance(answer, Finding) else good(name, f"{_search_base(settings)} answers")
    )


def unreached(settings: Settings, outside: Outside) -> list[Finding]:
    """Which of the model server and the search service does not answer, or refuses the key; within `START_SECONDS`.

    The sandbox is not asked: it is started with everything else.
    """
    asks = []
    if outside.model is not None:
        asks.append(partial(_ask_model, settings, ASK_SECONDS))
    if outside.search is not None:
        asks.append(partial(_ask_search, settings, ASK_SECONDS))
    if not asks:
        return []
    pool = ThreadPoolExecutor(len(asks))
    asked = [pool.submit(ask) for ask in asks]
    # A name server that does not answer has no time limit of its own.
    pool.shutdown(wait=False)
    done, _ = wait(asked, START_SECONDS)
    answers = [each.result() for each in asked if each in done]
    return [answer for answer in answers if isinstance(answer, Finding)]


def _model_base(settings: Settings) -> str:
    return (settings.openai_base_url or OPENAI).rstrip("/")


def _search_base(settings: Settings) -> str:
    return (settings.tavily_base_url or TAVILY).rstrip("/")


def _ask_model(settings: Settings, seconds: float = ANSWER_SECONDS) -> httpx.Response | Finding:
    ask = _Ask("model server", _model_base(settings), "models", "OPENAI", settings.openai_api_key)
    return ask.answer(seconds)


def _ask_search(settings: Settings, seconds: float = ANSWER_SECONDS) -> httpx.Response | Finding:
    ask = _Ask("search service", _search_base(settings), "usage", "TAVILY", settings.tavily_api_key)
    return ask.answer(seconds)


@dataclass(frozen=True)
class _Ask:
    """A question that costs nothing. `maker` is how the names of its settings begin."""

    name: str
    base: str
    path: str
    maker: str
    key: SecretStr | None

    def answer(self, seconds: float) -> httpx.Response | Finding:
        """The answer, or what is wrong where there is none or the key is refused."""
        headers = {"authorization": f"Bearer {self.key.get_secret_value()}"} if self.key else {}
        url = f"{self.base}/{self.path}"
        try:
            found = httpx.get(url, headers=headers, timeout=seconds, follow_redirects=True)
        except (httpx.TransportError, httpx.InvalidURL) as error:
            reason = str(error) or f"{type(error).__name__} after {seconds:g} s"
            mend = f"check {self.maker}_BASE_URL and the network"
            return bad(self.name, f"{self.base} does not answer: {reason}", mend)
        if found.status_code in (401, 403):
            return bad(self.name, f"{self.base} refuses the key", f"check {self.maker}_API_KEY")
        return found


def _model_names(answer: httpx.Response) -> set[str]:
    """Empty where the server does not list them as OpenAI does."""
    try:
        return {str(each["id"]) for each in answer.json()["data"]}
    except (ValueError, KeyError, TypeError):
        return set()
