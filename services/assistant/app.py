"""The composition root of the assistant service."""

from services.assistant.answer import AnswerHandler, start_next_answer
from services.assistant.configure_agent import ConfigureHandler
from services.assistant.router import create_router
from shared.agents import configuration
from shared.enums import StepKind
from shared.runtime.consumer import MessageConsumer
from shared.runtime.foreign_text import ForeignTextReader
from shared.runtime.providers import create_model, create_search_client, embedding_search_settings
from shared.runtime.settings import Settings
from shared.runtime.step_runner import step_consumer, step_database

CONCURRENCY = 8
"""More than other services have, because people wait for its results."""


def build(settings: Settings) -> MessageConsumer:
    database = step_database("assistant", settings, concurrency=CONCURRENCY)
    model = create_model(settings, database)
    reader = ForeignTextReader()
    search = create_search_client(settings, database, reader)
    converse = AnswerHandler(
        model,
        search,
        settings.context_tokens,
        settings.conversation_tokens,
        embedding_search_settings(settings),
    )
    return step_consumer(
        "assistant",
        settings,
        database,
        {StepKind.CONFIGURE: ConfigureHandler(model), StepKind.CONVERSE: converse},
        create_router,
        concurrency=CONCURRENCY,
        closing=[model.provider.close, search.close, reader.close],
        on_failure={
            StepKind.CONFIGURE: configuration.record_failure,
            StepKind.CONVERSE: start_next_answer,
        },
        streams_progress=True,
    )
