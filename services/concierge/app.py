"""The concierge's composition root."""

from services.concierge.configure import Configure
from services.concierge.converse import Converse, ask_for_next
from shared.runtime.actor import Actor
from shared.runtime.model import meaning_of, model_of
from shared.runtime.search import search_of
from shared.runtime.settings import Settings
from shared.runtime.step_actor import step_actor, step_database
from shared.store import configurations
from shared.store.words import StepKind

SLOTS = 8
"""More than others have: people wait for what it does."""


def build(settings: Settings) -> Actor:
    database = step_database("concierge", settings, slots=SLOTS)
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
        "concierge",
        settings,
        database,
        {StepKind.CONFIGURE: Configure(model), StepKind.CONVERSE: converse},
        slots=SLOTS,
        closing=[model.provider.close, search.close],
        on_failure={
            StepKind.CONFIGURE: configurations.failed,
            StepKind.CONVERSE: ask_for_next,
        },
        is_followed=True,
    )
