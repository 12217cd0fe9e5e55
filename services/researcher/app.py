"""The Researcher's composition root."""

from services.researcher.research import Research
from shared.llm.provider import Provider
from shared.runtime.actor import Actor
from shared.runtime.model import meaning_of, model_of
from shared.runtime.search import search_of
from shared.runtime.settings import Settings
from shared.runtime.step_actor import step_actor, step_database
from shared.search.client import SearchClient
from shared.store.words import StepKind

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
