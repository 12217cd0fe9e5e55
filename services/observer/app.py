"""The Observer's composition root."""

from services.observer.observe import Observe
from shared.llm.provider import Provider
from shared.runtime.actor import Actor
from shared.runtime.model import model_of
from shared.runtime.settings import Settings
from shared.runtime.step_actor import step_actor, step_database
from shared.store.words import StepKind

SLOTS = 2


def build(settings: Settings, provider: Provider | None = None) -> Actor:
    database = step_database("observer", settings, slots=SLOTS)
    model = model_of(settings, database, provider)
    work = Observe(model, settings.context_tokens)
    return step_actor(
        "observer",
        settings,
        database,
        {StepKind.OBSERVE: work},
        slots=SLOTS,
        closing=[model.provider.close],
    )
