"""What is common to the services outside that cost money."""

from shared.llm.prices import SHIPPED, Prices, read_prices
from shared.runtime.logs import logger
from shared.runtime.settings import Settings

# Sent where no key is set: local servers want none, and the others answer clearly.
NO_KEY = "no-key-set"

log = logger(__name__)


def prices_of(settings: Settings) -> Prices:
    """What calls cost; nothing where the sandbox answers. Raises PermanentError where the list cannot be read."""
    listed = read_prices(settings.prices_file or SHIPPED)
    free = listed.of_sandbox(model=settings.model_is_sandbox, search=settings.search_is_sandbox)
    return free.overridden(settings.prices)


def say_who_answers(settings: Settings, of: str) -> None:
    """Here and not where the settings are read: only who asks the model or the web is to speak of them."""
    if of in settings.sandboxed:
        log.info("no key is set: the sandbox answers", instead_of=of)
