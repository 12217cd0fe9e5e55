"""The Observer's composition root."""

from datetime import timedelta

from services.observer.handler import Observe
from services.observer.outlook import Watch
from services.observer.router import create_router
from shared.enums import StepKind
from shared.llm.provider import Provider
from shared.runtime.consumer import MessageConsumer
from shared.runtime.foreign_text import ForeignTextReader
from shared.runtime.providers import create_fetch_client, create_model
from shared.runtime.settings import Settings
from shared.runtime.step_runner import step_consumer, step_database

CONCURRENCY = 4
"""A step that checks pages mostly waits for their servers."""


def build(settings: Settings, provider: Provider | None = None) -> MessageConsumer:
    database = step_database("observer", settings, concurrency=CONCURRENCY)
    model = create_model(settings, database, provider)
    client = create_fetch_client(settings)
    reader = ForeignTextReader()
    watch = Watch(
        client, reader, settings.probe_pages, timedelta(seconds=settings.search_every_seconds)
    )
    work = Observe(model, settings.context_tokens, watch if settings.probe_pages else None)
    return step_consumer(
        "observer",
        settings,
        database,
        {StepKind.OBSERVE: work},
        create_router,
        concurrency=CONCURRENCY,
        closing=[model.provider.close, client.close, reader.close],
    )
