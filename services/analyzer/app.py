"""The Analyzer's composition root."""

from services.analyzer.handler import Analyze
from services.analyzer.router import create_router
from shared.enums import StepKind
from shared.llm.provider import Provider
from shared.runtime.consumer import MessageConsumer
from shared.runtime.providers import create_model, embedding_search_settings
from shared.runtime.settings import Settings
from shared.runtime.step_runner import step_consumer, step_database

CONCURRENCY = 4


def build(settings: Settings, provider: Provider | None = None) -> MessageConsumer:
    database = step_database("analyzer", settings, concurrency=CONCURRENCY)
    model = create_model(settings, database, provider)
    work = Analyze(
        model, settings.context_tokens, embedding_search=embedding_search_settings(settings)
    )
    return step_consumer(
        "analyzer",
        settings,
        database,
        {StepKind.INSIGHT: work},
        create_router,
        concurrency=CONCURRENCY,
        closing=[model.provider.close],
    )
