"""The Observer's composition root."""

from services.observer.handler import Observe
from shared.enums import StepKind
from shared.llm.provider import Provider
from shared.runtime.consumer import Actor
from shared.runtime.providers import model_of
from shared.runtime.settings import Settings
from shared.runtime.step_runner import step_actor, step_database

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
