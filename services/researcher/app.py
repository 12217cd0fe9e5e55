"""The Researcher's composition root."""

from services.researcher.handler import Research
from shared.enums import StepKind
from shared.llm.provider import Provider
from shared.runtime.consumer import Actor
from shared.runtime.providers import meaning_of, model_of, search_of
from shared.runtime.settings import Settings
from shared.runtime.step_runner import step_actor, step_database
from shared.web_search.client import SearchClient

SLOTS = 4


def build(
    settings: Settings, provider: Provider | None = None, search: SearchClient | None = None
) -> Actor:
    database = step_database("researcher", settings, slots=SLOTS)
    model = model_of(settings, database, provider)
    search = search or search_of(settings)
    work = Research(
        model,
        search,
        settings.context_tokens,
        settings.name_likeness,
        meaning=meaning_of(settings),
    )
    return step_actor(
        "researcher",
        settings,
        database,
        {StepKind.QUERY: work},
        slots=SLOTS,
        closing=[model.provider.close, search.close],
    )
