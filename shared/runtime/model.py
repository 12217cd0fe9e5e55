"""The model and the search service, as the settings name them."""

from shared.llm.background import BackgroundProvider
from shared.llm.phase import Model
from shared.llm.provider import ChatProvider, Provider
from shared.llm.server import ModelServer
from shared.runtime.settings import Settings
from shared.search.client import SearchClient
from shared.store.database import Database

# Sent where no key is set: local servers want none, and the others answer clearly.
NO_KEY = "no-key-set"


def model_of(settings: Settings, database: Database) -> Model:
    key = settings.openai_api_key
    server = ModelServer(
        api_key=key.get_secret_value() if key else NO_KEY,
        base_url=settings.openai_base_url,
        timeout_seconds=settings.llm_timeout_seconds,
    )
    return Model(_provider(settings, server), database, settings.prices, settings.model)


def _provider(settings: Settings, server: ModelServer) -> Provider:
    match settings.model_api:
        case "chat":
            return ChatProvider(server)
        case "background":
            return BackgroundProvider(server)


def search_of(settings: Settings) -> SearchClient:
    key = settings.tavily_api_key
    return SearchClient(
        api_key=key.get_secret_value() if key else NO_KEY,
        base_url=settings.tavily_base_url,
        timeout_seconds=settings.search_timeout_seconds,
    )
