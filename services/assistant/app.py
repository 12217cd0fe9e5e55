"""The assistant's composition root."""

from services.assistant.answer import Converse, ask_for_next
from services.assistant.configure_agent import Configure
from shared.agents import configuration
from shared.enums import StepKind
from shared.runtime.consumer import Actor
from shared.runtime.providers import meaning_of, model_of, search_of
from shared.runtime.settings import Settings
from shared.runtime.step_runner import step_actor, step_database

SLOTS = 8
"""More than others have: people wait for what it does."""


def build(settings: Settings) -> Actor:
    database = step_database("assistant", settings, slots=SLOTS)
    model = model_of(settings, database)
    search = search_of(settings)
    converse = Converse(
        model,
        search,
        settings.context_tokens,
        settings.conversation_tokens,
        meaning_of(settings),
    )
    return step_actor(
        "assistant",
        settings,
        database,
        {StepKind.CONFIGURE: Configure(model), StepKind.CONVERSE: converse},
        slots=SLOTS,
        closing=[model.provider.close, search.close],
        on_failure={
            StepKind.CONFIGURE: configuration.failed,
            StepKind.CONVERSE: ask_for_next,
        },
        is_followed=True,
    )
