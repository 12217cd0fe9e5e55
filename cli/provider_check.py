"""Requests that cost nothing, to see whether the model server and the search service answer and accept the keys."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pydantic import SecretStr

from cli.config.providers import Providers
from cli.errors import BadInputError
from cli.findings import Finding, Verdict, bad
from shared.runtime.settings import Settings
from shared.urls import strip_secrets

if TYPE_CHECKING:
    import httpx

OPENAI: Final = "https://api.openai.com/v1"
TAVILY: Final = "https://api.tavily.com"
REQUEST_SECONDS: Final = 10.0
START_REQUEST_SECONDS: Final = 4.0
START_SECONDS: Final = 6.0
"""How long the start of an installation waits for the providers to answer."""


@dataclass(frozen=True)
class RefusedKey(Finding):
    """A provider answers, and does not accept the key."""


def unreachable_providers(settings: Settings, providers: Providers) -> list[Finding]:
    """The model server and the search service, if they do not answer within `START_SECONDS` or refuse the key.

    The sandbox is not checked: it starts with everything else.
    """
    requests = []
    if providers.model is not None:
        requests.append(model_request(settings))
    if providers.search is not None:
        requests.append(search_request(settings))
    if not requests:
        return []
    pool = ThreadPoolExecutor(len(requests))
    futures = [pool.submit(request.send, START_REQUEST_SECONDS) for request in requests]
    # DNS look-ups have no time limit of their own.
    pool.shutdown(wait=False)
    finished_requests, _ = wait(futures, START_SECONDS)
    answers = [future.result() for future in futures if future in finished_requests]
    return [answer for answer in answers if isinstance(answer, Finding)]


def require_accepted_keys(findings: Sequence[Finding]) -> None:
    """Raises BadInputError if a provider refuses its key: every step would fail. Never names the key."""
    refused = [f"{each.message}: {each.fix}" for each in findings if isinstance(each, RefusedKey)]
    if refused:
        raise BadInputError("; ".join(refused))


def model_base(settings: Settings) -> str:
    """The URL to request; `strip_secrets` makes it fit to be shown."""
    return (settings.openai_base_url or OPENAI).rstrip("/")


def search_base(settings: Settings) -> str:
    return (settings.tavily_base_url or TAVILY).rstrip("/")


def model_request(settings: Settings, provider: str | None = None) -> "ProviderRequest":
    """The request for the models of OPENAI_BASE_URL, or of a provider of VIGIL_PROVIDERS."""
    url_setting, key_setting = "OPENAI_BASE_URL", "OPENAI_API_KEY"
    name, base, key = "model server", model_base(settings), settings.openai_api_key
    if provider is not None:
        known, setting = settings.providers[provider], f"VIGIL_PROVIDERS[{provider!r}]"
        url_setting, key_setting = f"{setting}['base_url']", f"{setting}['api_key']"
        name, base, key = f"provider {provider}", known.base_url.rstrip("/"), known.api_key
    return ProviderRequest(name, base, "models", url_setting, key_setting, key)


def search_request(settings: Settings) -> "ProviderRequest":
    base, key = search_base(settings), settings.tavily_api_key
    return ProviderRequest(
        "search service", base, "usage", "TAVILY_BASE_URL", "TAVILY_API_KEY", key, "search"
    )


@dataclass(frozen=True)
class ProviderRequest:
    """A request that costs nothing."""

    name: str
    base: str
    path: str
    url_setting: str
    key_setting: str
    key: SecretStr | None
    other_path: str | None = None
    """Where an empty request is posted if the server does not know `path`. It has no result, so nothing is billed, but the
    server checks the key.
    """

    def send(self, seconds: float) -> "httpx.Response | Finding":
        """The response, or a finding if there is none or the key is refused."""
        import httpx  # here, because an installation without providers does without it

        from cli.client.reasons import reason

        headers = {"authorization": f"Bearer {self.key.get_secret_value()}"} if self.key else {}
        shown = strip_secrets(self.base)
        try:
            with httpx.Client(headers=headers, timeout=seconds, follow_redirects=True) as client:
                response = client.get(f"{self.base}/{self.path}")
                if response.status_code in (404, 405) and self.other_path is not None:
                    response = client.post(f"{self.base}/{self.other_path}", json={})
        except (httpx.TransportError, httpx.InvalidURL) as error:
            why = reason(error)
            if isinstance(error, httpx.TimeoutException):
                why = f"it did not answer within {seconds:g} s"
            fix = f"check {self.url_setting} and the network"
            return bad(self.name, f"{shown} does not answer: {why}", fix)
        if response.status_code in (401, 403):
            text = f"{shown} refuses the key in {self.key_setting}"
            if self.key is None:
                text = f"{shown} needs a key"
            return RefusedKey(
                self.name, Verdict.BAD, text, f"set {self.key_setting} to a valid key"
            )
        return response
