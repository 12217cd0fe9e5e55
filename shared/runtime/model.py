"""The model, as the settings name it."""

from shared.errors import VigilError
from shared.graph.meaning import Meaning
from shared.llm.background import BackgroundProvider
from shared.llm.embedder import Embedder
from shared.llm.phase import Model
from shared.llm.provider import ChatProvider, Provider
from shared.llm.server import Limits, ModelServer
from shared.llm.tool_choice import OptionalToolChoice
from shared.runtime.logs import logger
from shared.runtime.outside import NO_KEY, prices_of, say_who_answers
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
