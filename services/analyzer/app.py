"""The Analyzer's composition root."""

from services.analyzer.handler import Analyze
from shared.enums import StepKind
from shared.llm.provider import Provider
from shared.runtime.consumer import Actor
from shared.runtime.providers import meaning_of, model_of
from shared.runtime.settings import Settings
from shared.runtime.step_runner import step_actor, step_database

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
