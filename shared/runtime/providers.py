"""Creates the clients of the model and the search service from the settings."""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

import httpx
from pydantic import SecretStr

from shared.database.engine import Database
from shared.enums import Phase
from shared.errors import VigilError
from shared.fetch.client import CONCURRENCY, FetchClient, Gateway
from shared.fetch.transport import CheckedTransport, resolver
from shared.graph.retrieval import EmbeddingSearch
from shared.llm.background_provider import BackgroundProvider
from shared.llm.context_limit import LimitedProvider
from shared.llm.model_server import Limits, ModelServer, SettingNames, server_name
from shared.llm.provider import ChatProvider, Embedder, Model, ModelRouter, Provider, Route
from shared.llm.verification import MAX_OUTPUT_TOKENS
from shared.provider_limits import state as provider_limits
from shared.provider_limits.gate import ProviderGate
from shared.provider_limits.store import StateStore, provider_key
from shared.runtime.foreign_text import ForeignTextReader
from shared.runtime.logging import logger
from shared.runtime.prices import load_prices
from shared.runtime.settings import ModelProvider, Settings
from shared.tls import tls_context
from shared.web_search.client import NAME, SearchClient

# Sent if no key is set: local servers need none, and the others return a clear error.
NO_KEY = "no-key-set"


def log_sandbox_use(settings: Settings, provider: str) -> None:
    """Logs that the sandbox is used instead of the model or the search service.

    Called here and not where the settings are read, so that only services that use a provider log it.
    """
    if provider in settings.sandboxed_providers:
        log.info("no API key is set; the sandbox is used", instead_of=provider)


log = logger(__name__)


class _Server(NamedTuple):
    """A model server."""

    base_url: str | None
    api_key: str
    limits: provider_limits.Limits
    context_tokens: int | None = None
    name: str | None = None
    """In VIGIL_PROVIDERS."""


def create_model(settings: Settings, database: Database, provider: Provider | None = None) -> Model:
    """The model client, with `provider` if given, otherwise with the one of the settings."""
    is_sandbox = provider is None and settings.model_is_sandbox
    if provider is None:
        log_sandbox_use(settings, "model")
    default = _default_provider(settings)
    server = _model_server(settings, database, default)
    provider = _limited(provider or _provider(settings.model_api, server), default)
    named = {
        name: _route(settings, database, name, each) for name, each in settings.providers.items()
    }
    router = ModelRouter(Route(provider, server.gate), named)
    return Model(
        router,
        database,
        load_prices(settings),
        settings.model,
        _max_output_tokens(settings),
        Embedder(server, _log_embedding_error) if settings.embedding_model else None,
        options={phase: dict(options.items()) for phase, options in settings.model_options.items()},
        requires_tools=settings.model_tool_choice == "auto",
        fault=router.fault,
        context_setting=lambda model: _setting_names(router.provider_name(model)).context,
        phase_seconds=settings.phase_seconds,
        is_sandboxed=lambda model: is_sandbox and router.provider_name(model) is None,
        # With several servers, the model of a request names the server.
        provider_name="openai" if server.is_openai and not named else None,
    )


def _default_provider(settings: Settings) -> _Server:
    return _Server(
        settings.openai_base_url,
        _key_text(settings.openai_api_key),
        provider_limits.Limits(
            settings.model_requests_per_minute,
            settings.model_tokens_per_minute,
            settings.model_concurrency,
        ),
        settings.model_context_tokens,
    )


def _route(settings: Settings, database: Database, name: str, named: ModelProvider) -> Route:
    limits = provider_limits.Limits(
        named.requests_per_minute, named.tokens_per_minute, named.concurrency
    )
    key = _key_text(named.api_key)
    described = _Server(named.base_url, key, limits, named.context_tokens, name)
    server = _model_server(settings, database, described)
    return Route(_limited(_provider(named.api, server), described), server.gate)


def _limited(provider: Provider, server: _Server) -> Provider:
    """`provider`, whose requests fit into the context of the server's models."""
    if server.context_tokens is None:
        return provider
    return LimitedProvider(provider, server.context_tokens, _setting_names(server.name).context)


def _key_text(key: SecretStr | None) -> str:
    return key.get_secret_value() if key else NO_KEY


def _model_server(settings: Settings, database: Database, server: _Server) -> ModelServer:
    name = server_name(server.base_url, server.name)
    key = provider_key(server.base_url, server.api_key)
    return ModelServer(
        api_key=server.api_key,
        base_url=server.base_url,
        limits=Limits(
            whole=settings.llm_timeout_seconds,
            silence=settings.llm_silence_seconds,
            first_token=settings.llm_first_token_seconds,
            total=settings.llm_total_seconds,
        ),
        stream=settings.model_stream,
        warn=log.warning,
        gate=ProviderGate(
            name,
            limits=server.limits,
            store=StateStore(database, "model", key, name),
            log=log,
        ),
        settings=_setting_names(server.name),
        name=name,
    )


def _setting_names(provider: str | None) -> SettingNames:
    if provider is None:
        return SettingNames()
    setting = f"VIGIL_PROVIDERS[{provider!r}]"
    return SettingNames(
        *(f"{setting}[{key!r}]" for key in ("api_key", "base_url", "api", "context_tokens"))
    )


def _max_output_tokens(settings: Settings) -> Mapping[Phase, int]:
    limits = dict.fromkeys(Phase, settings.max_output_tokens)
    limits[Phase.VERIFICATION] = min(MAX_OUTPUT_TOKENS, settings.max_output_tokens)
    return limits | settings.max_output_tokens_of_phase


def embedding_search_settings(settings: Settings) -> EmbeddingSearch | None:
    """Settings of the embedding search; None if it is off."""
    if settings.embedding_model is None:
        return None
    return EmbeddingSearch(settings.embedding_model, settings.embedding_min_similarity)


def _log_embedding_error(error: VigilError) -> None:
    log.warning("embeddings are unavailable; searching by words only", error=str(error))


def _provider(api: Literal["chat", "background"], server: ModelServer) -> Provider:
    match api:
        case "chat":
            return ChatProvider(server, responses=BackgroundProvider(server))
        case "background":
            return BackgroundProvider(server)


SANDBOX_FEED: Final = "https://corpus.local/feed.xml"
"""The feed that lists the documents of a corpus of the sandbox."""


def create_fetch_client(settings: Settings) -> FetchClient:
    """The client that fetches pages itself: through the gateway of the settings, or of the sandbox if that searches."""
    url, key, feed = settings.fetch_gateway, settings.fetch_gateway_key, None
    if url is None and settings.search_is_sandbox and settings.tavily_base_url is not None:
        url, key = f"{settings.tavily_base_url.rstrip('/')}/page", settings.tavily_api_key
        feed = SANDBOX_FEED
    if url is not None:
        gateway = Gateway(url, key.get_secret_value() if key else None, feed=feed)
        return FetchClient(httpx.AsyncHTTPTransport(verify=tls_context()), gateway=gateway)
    transport = CheckedTransport(
        resolver(CONCURRENCY), private=settings.fetch_private, setting="VIGIL_FETCH_PRIVATE"
    )
    return FetchClient(transport)


def create_search_client(
    settings: Settings, database: Database, reader: ForeignTextReader | None = None
) -> SearchClient:
    log_sandbox_use(settings, "search")
    key = settings.tavily_api_key
    api_key = key.get_secret_value() if key else NO_KEY
    return SearchClient(
        api_key=api_key,
        base_url=settings.tavily_base_url,
        timeout_seconds=settings.search_timeout_seconds,
        gate=ProviderGate(
            NAME,
            limits=provider_limits.Limits(
                settings.search_requests_per_minute, None, settings.search_concurrency
            ),
            store=StateStore(
                database, "search", provider_key(settings.tavily_base_url, api_key), NAME
            ),
            log=log,
        ),
        readable=reader.readable if reader else None,
    )
