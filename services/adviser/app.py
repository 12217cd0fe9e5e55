"""The Adviser's composition root."""

from services.adviser.handler import Advise
from shared.enums import StepKind
from shared.llm.provider import Provider
from shared.runtime.consumer import Actor
from shared.runtime.providers import meaning_of, model_of
from shared.runtime.settings import Settings
from shared.runtime.step_runner import step_actor, step_database

SLOTS = 2


def build(settings: Settings, provider: Provider | None = None) -> Actor:
    database = step_database("adviser", settings, slots=SLOTS)
    model = model_of(settings, database, provider)
    work = Advise(model, settings.context_tokens, meaning_of(settings))
    return step_actor(
        "adviser",
        settings,
        database,
        {StepKind.ADVISE: work},
        slots=SLOTS,
        closing=[model.provider.close],
    )
