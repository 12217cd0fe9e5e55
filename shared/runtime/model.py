"""The model, as the settings name it."""

from shared.errors import VigilError
from shared.graph.meaning import Meaning
from shared.llm.background import BackgroundProvider
from shared.llm.embedder import Embedder
from shared.llm.phase import Model
from shared.llm.prices import SHIPPED, Prices, read_prices
from shared.llm.provider import ChatProvider, Provider
from shared.llm.server import ModelServer
from shared.runtime.logs import logger
from shared.runtime.outside import NO_KEY, say_who_answers
from shared.runtime.settings import Settings
from shared.store.database import Database
from shared.store.words import Phase

log = logger(__name__)


def model_of(settings: Settings, database: Database, provider: Provider | None = None) -> Model:
    """Of the `provider` that is given, or else of the one that the settings name."""
    if provider is None:
        say_who_answers(settings, "model")
    key = settings.openai_api_key
    server = ModelServer(
        api_key=key.get_secret_value() if key else NO_KEY,
        base_url=settings.openai_base_url,
        timeout_seconds=settings.llm_timeout_seconds,
    )
    return Model(
        provider or _provider(settings, server),
        database,
        prices_of(settings),
        settings.model,
        dict.fromkeys(Phase, settings.most_output_tokens) | settings.most_output_tokens_of_phase,
        Embedder(server, _tell_unembedded) if settings.embedding_model else None,
    )


def meaning_of(settings: Settings) -> Meaning | None:
    """None where nothing is searched by meaning."""
    if settings.embedding_model is None:
        return None
    return Meaning(settings.embedding_model, settings.embedding_likeness)


def _tell_unembedded(error: VigilError) -> None:
    log.warning("no vectors for now: what is searched is searched by words alone", error=str(error))


def prices_of(settings: Settings) -> Prices:
    """Raises PermanentError where the file of prices cannot be read, or is none."""
    return read_prices(settings.prices_file or SHIPPED).overridden(settings.prices)


def _provider(settings: Settings, server: ModelServer) -> Provider:
    match settings.model_api:
        case "chat":
            return ChatProvider(server)
        case "background":
            return BackgroundProvider(server)
