"""The model and the search service, as the settings name them."""

from shared.database.engine import Database
from shared.enums import Phase
from shared.errors import VigilError
from shared.graph.retrieval import Meaning
from shared.llm.background_provider import BackgroundProvider
from shared.llm.model_server import Limits, ModelServer
from shared.llm.phase_run import Model
from shared.llm.pricing import SHIPPED, Prices, read_prices
from shared.llm.provider import ChatProvider, Embedder, Provider
from shared.llm.tool_choice import OptionalToolChoice
from shared.runtime.logging import logger
from shared.runtime.settings import Settings
from shared.web_search.client import SearchClient

# Sent where no key is set: local servers want none, and the others answer clearly.
NO_KEY = "no-key-set"


def prices_of(settings: Settings) -> Prices:
    """What calls cost; nothing where the sandbox answers. Raises PermanentError where the list cannot be read."""
    listed = read_prices(settings.prices_file or SHIPPED)
    free = listed.of_sandbox(model=settings.model_is_sandbox, search=settings.search_is_sandbox)
    return free.overridden(settings.prices)


def say_who_answers(settings: Settings, of: str) -> None:
    """Here and not where the settings are read: only who asks the model or the web is to speak of them."""
    if of in settings.sandboxed:
        log.info("no key is set: the sandbox answers", instead_of=of)


log = logger(__name__)


def model_of(settings: Settings, database: Database, provider: Provider | None = None) -> Model:
    """Of the `provider` that is given, or else of the one that the settings name."""
    if provider is None:
        say_who_answers(settings, "model")
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
    return Model(
        provider or _provider(settings, server),
        database,
        prices_of(settings),
        settings.model,
        dict.fromkeys(Phase, settings.most_output_tokens) | settings.most_output_tokens_of_phase,
        Embedder(server, _tell_unembedded) if settings.embedding_model else None,
        requires_tools=settings.model_tool_choice == "auto",
    )


def meaning_of(settings: Settings) -> Meaning | None:
    """None where nothing is searched by meaning."""
    if settings.embedding_model is None:
        return None
    return Meaning(settings.embedding_model, settings.embedding_likeness)


def _tell_unembedded(error: VigilError) -> None:
    log.warning("no vectors for now: what is searched is searched by words alone", error=str(error))


def _provider(settings: Settings, server: ModelServer) -> Provider:
    match settings.model_api:
        case "chat":
            return OptionalToolChoice(ChatProvider(server))
        case "background":
            return OptionalToolChoice(BackgroundProvider(server))


def search_of(settings: Settings) -> SearchClient:
    say_who_answers(settings, "search")
    key = settings.tavily_api_key
    return SearchClient(
        api_key=key.get_secret_value() if key else NO_KEY,
        base_url=settings.tavily_base_url,
        timeout_seconds=settings.search_timeout_seconds,
    )
