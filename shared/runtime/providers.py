"""Creates the clients of the model and the search service from the settings."""

from collections.abc import Mapping
from typing import Final

import httpx

from shared.database.engine import Database
from shared.enums import Phase
from shared.errors import VigilError
from shared.fetch.client import CONCURRENCY, FetchClient, Gateway
from shared.fetch.transport import CheckedTransport, resolver
from shared.graph.retrieval import EmbeddingSearch
from shared.llm.background_provider import BackgroundProvider
from shared.llm.context_limit import LimitedProvider
from shared.llm.model_server import Limits, ModelServer
from shared.llm.phase_run import Model
from shared.llm.pricing import SHIPPED, Prices, read_prices
from shared.llm.provider import ChatProvider, Embedder, OptionalToolChoice, Provider
from shared.runtime.logging import logger
from shared.runtime.settings import Settings
from shared.tls import tls_context
from shared.web_search.client import SearchClient

# Sent if no key is set: local servers need none, and the others return a clear error.
NO_KEY = "no-key-set"
MAX_CHECK_TOKENS: Final = 2000
"""Limit of an answer of the entailment check: one sentence, and reasoning. Its budget reserves it for each call."""


def load_prices(settings: Settings) -> Prices:
    """Prices of calls; zero for the sandbox. Raises PermanentError if the price file cannot be read."""
    prices = read_prices(settings.prices_file or SHIPPED)
    with_sandbox = prices.for_sandbox(
        model=settings.model_is_sandbox, search=settings.search_is_sandbox
    )
    return with_sandbox.overridden(settings.prices)


def log_sandbox_use(settings: Settings, provider: str) -> None:
    """Logs that the sandbox is used instead of the model or the search service.

    Called here and not where the settings are read, so that only services that use a provider log it.
    """
    if provider in settings.sandboxed_providers:
        log.info("no API key is set; the sandbox is used", instead_of=provider)


log = logger(__name__)


def create_model(settings: Settings, database: Database, provider: Provider | None = None) -> Model:
    """The model client, with `provider` if given, otherwise with the one of the settings."""
    if provider is None:
        log_sandbox_use(settings, "model")
    key = settings.openai_api_key
    server = ModelServer(
        api_key=key.get_secret_value() if key else NO_KEY,
        base_url=settings.openai_base_url,
        limits=Limits(
            whole=settings.llm_timeout_seconds,
            silence=settings.llm_silence_seconds,
            first_token=settings.llm_first_token_seconds,
            total=settings.llm_total_seconds,
        ),
        stream=settings.model_stream,
        warn=log.warning,
    )
    provider = provider or _provider(settings, server)
    if settings.model_context_tokens is not None:
        provider = LimitedProvider(provider, settings.model_context_tokens)
    return Model(
        provider,
        database,
        load_prices(settings),
        settings.model,
        _max_output_tokens(settings),
        Embedder(server, _log_embedding_error) if settings.embedding_model else None,
        options={phase: dict(options.items()) for phase, options in settings.model_options.items()},
        requires_tools=settings.model_tool_choice == "auto",
    )


def _max_output_tokens(settings: Settings) -> Mapping[Phase, int]:
    limits = dict.fromkeys(Phase, settings.max_output_tokens)
    limits[Phase.ENTAILMENT_CHECK] = min(MAX_CHECK_TOKENS, settings.max_output_tokens)
    return limits | settings.max_output_tokens_of_phase


def embedding_search_settings(settings: Settings) -> EmbeddingSearch | None:
    """Settings of the embedding search; None if it is off."""
    if settings.embedding_model is None:
        return None
    return EmbeddingSearch(settings.embedding_model, settings.embedding_min_similarity)


def _log_embedding_error(error: VigilError) -> None:
    log.warning("embeddings are unavailable; searching by words only", error=str(error))


def _provider(settings: Settings, server: ModelServer) -> Provider:
    match settings.model_api:
        case "chat":
            return OptionalToolChoice(ChatProvider(server))
        case "background":
            return OptionalToolChoice(BackgroundProvider(server))


def create_fetch_client(settings: Settings) -> FetchClient:
    """The client that fetches pages itself: through the gateway of the settings, or of the sandbox if that searches."""
    url, key = settings.fetch_gateway, settings.fetch_gateway_key
    if url is None and settings.search_is_sandbox and settings.tavily_base_url is not None:
        url, key = f"{settings.tavily_base_url.rstrip('/')}/page", settings.tavily_api_key
    if url is not None:
        gateway = Gateway(url, key.get_secret_value() if key else None)
        return FetchClient(httpx.AsyncHTTPTransport(verify=tls_context()), gateway=gateway)
    transport = CheckedTransport(
        resolver(CONCURRENCY), private=settings.fetch_private, setting="VIGIL_FETCH_PRIVATE"
    )
    return FetchClient(transport)


def create_search_client(settings: Settings) -> SearchClient:
    log_sandbox_use(settings, "search")
    key = settings.tavily_api_key
    return SearchClient(
        api_key=key.get_secret_value() if key else NO_KEY,
        base_url=settings.tavily_base_url,
        timeout_seconds=settings.search_timeout_seconds,
    )
