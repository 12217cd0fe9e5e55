"""What is common to the services outside that cost money."""

from shared.runtime.logs import logger
from shared.runtime.settings import Settings

# Sent where no key is set: local servers want none, and the others answer clearly.
NO_KEY = "no-key-set"

log = logger(__name__)


def say_who_answers(settings: Settings, of: str) -> None:
    """Here and not where the settings are read: only who asks the model or the web is to speak of them."""
    if of in settings.sandboxed:
        log.info("no key is set: the sandbox answers", instead_of=of)
