"""All routers as one application: FastStream generates docs/asyncapi.yaml from it (`make asyncapi`)."""

from collections.abc import Sequence

from services.adviser import router as adviser
from services.aggregator import router as aggregator
from services.analyzer import router as analyzer
from services.assistant import router as assistant
from services.notifier import router as notifier
from services.observer import router as observer
from services.researcher import router as researcher
from services.scheduler import router as scheduler
from shared.events.envelope import Event
from shared.runtime.router import ServiceRouter, documented


def create_app() -> object:
    modules = (scheduler, observer, researcher, aggregator, analyzer, adviser, assistant, notifier)
    routers = [module.create_router(_handle_nothing) for module in modules]
    return documented([*routers, ServiceRouter("api")])


async def _handle_nothing(_: Event) -> Sequence[Event]:
    return []
