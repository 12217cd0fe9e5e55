"""What a request goes through before it comes to a route."""

from urllib.parse import urlsplit

from starlette.middleware import Middleware
from starlette.types import Scope

from services.api.bodies import BodyLimit
from services.api.door import CALLER, Door
from services.api.guard import Guard
from services.api.metrics import Measured
from services.api.parts import Parts
from services.api.paths import is_open
from services.api.rates import Rates, by_address
from services.api.window.app import Window
from services.api.window.for_people import ForPeople
from services.api.window.smaller import Smaller
from shared.store.callers import Caller


def layers(parts: Parts, window: Window) -> list[Middleware]:
    """The first is the outermost."""
    settings = parts.settings
    hosts = [settings.host, *settings.allowed_hosts, urlsplit(settings.reached_at).hostname or ""]
    return [
        Middleware(Measured, metrics=parts.metrics),
        Middleware(Smaller),
        Middleware(ForPeople, pages=window.pages),
        Middleware(Guard, hosts=hosts),
        Middleware(
            Door,
            owner=parts.owner,
            database=parts.database,
            settings=settings,
            places=parts.places,
            is_open=is_open,
        ),
        Middleware(
            Rates,
            per_second=settings.requests_per_second,
            burst=settings.requests_burst,
            caller_of=_by_user,
        ),
        Middleware(BodyLimit, max_bytes=settings.max_body_bytes),
    ]


def _by_user(scope: Scope) -> str:
    """Whom the door has let in, whatever they came in by; where it asked nobody, the address."""
    caller: Caller | None = scope.get(CALLER)
    return by_address(scope) if caller is None else str(caller.user_id)
