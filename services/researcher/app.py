"""The Researcher's composition root."""

from datetime import timedelta

from services.researcher.handler import Research
from services.researcher.router import create_router
from shared.enums import StepKind
from shared.llm.provider import Provider
from shared.runtime.consumer import MessageConsumer
from shared.runtime.foreign_text import ForeignTextReader
from shared.runtime.providers import create_model, create_search_client, embedding_search_settings
from shared.runtime.settings import Settings
from shared.runtime.step_runner import step_consumer, step_database
from shared.web_search.client import SearchClient

CONCURRENCY = 4


def build(
    settings: Settings, provider: Provider | None = None, search: SearchClient | None = None
) -> MessageConsumer:
    database = step_database("researcher", settings, concurrency=CONCURRENCY)
    model = create_model(settings, database, provider)
    reader = ForeignTextReader()
    search = search or create_search_client(settings, database, reader)
    work = Research(
        model,
        search,
        settings.context_tokens,
        settings.duplicate_threshold,
        embedding_search=embedding_search_settings(settings),
        search_ttl=timedelta(seconds=settings.search_ttl_seconds),
        shares_searches=settings.search_shared,
    )
    return step_consumer(
        "researcher",
        settings,
        database,
        {StepKind.QUERY: work},
        create_router,
        concurrency=CONCURRENCY,
        closing=[model.provider.close, search.close, reader.close],
    )
