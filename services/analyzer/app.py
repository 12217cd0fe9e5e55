"""The Analyzer's composition root."""

from services.analyzer.analyze import Analyze
from shared.llm.provider import Provider
from shared.runtime.actor import Actor
from shared.runtime.model import meaning_of, model_of
from shared.runtime.settings import Settings
from shared.runtime.step_actor import step_actor, step_database
from shared.store.words import StepKind

SLOTS = 4


def build(settings: Settings, provider: Provider | None = None) -> Actor:
    database = step_database("analyzer", settings, slots=SLOTS)
    model = model_of(settings, database, provider)
    work = Analyze(model, settings.context_tokens, meaning=meaning_of(settings))
    return step_actor(
        "analyzer",
        settings,
        database,
        {StepKind.INSIGHT: work},
        slots=SLOTS,
        closing=[model.provider.close],
    )
