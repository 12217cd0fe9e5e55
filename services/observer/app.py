"""The Observer's composition root."""

from services.observer.handler import Observe
from shared.enums import StepKind
from shared.llm.provider import Provider
from shared.runtime.consumer import MessageConsumer
from shared.runtime.providers import create_model
from shared.runtime.settings import Settings
from shared.runtime.step_runner import step_consumer, step_database

CONCURRENCY = 2


def build(settings: Settings, provider: Provider | None = None) -> MessageConsumer:
    database = step_database("observer", settings, concurrency=CONCURRENCY)
    model = create_model(settings, database, provider)
    work = Observe(model, settings.context_tokens)
    return step_consumer(
        "observer",
        settings,
        database,
        {StepKind.OBSERVE: work},
        concurrency=CONCURRENCY,
        closing=[model.provider.close],
    )
