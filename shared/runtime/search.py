"""The search service, as the settings name it: apart from the model, for its library is large and few ask it."""

from shared.runtime.outside import NO_KEY, say_who_answers
from shared.runtime.settings import Settings
from shared.search.client import SearchClient


def search_of(settings: Settings) -> SearchClient:
    say_who_answers(settings, "search")
    key = settings.tavily_api_key
    return SearchClient(
        api_key=key.get_secret_value() if key else NO_KEY,
        base_url=settings.tavily_base_url,
        timeout_seconds=settings.search_timeout_seconds,
    )
