"""`python -m bench.loop.service NAME DELAY_SECONDS`: a shipped service with the scripted model and search."""

import importlib
import sys
from typing import Final

from shared.runtime.process import run

MODEL_CALLERS: Final = ("observer", "researcher", "analyzer", "adviser")


def main() -> None:
    name, delay = sys.argv[1], float(sys.argv[2])
    build = importlib.import_module(f"services.{name}.app").build
    providers = _providers(name, delay) if name in MODEL_CALLERS else {}
    run(name, lambda settings: build(settings, **providers))


def _providers(name: str, delay_seconds: float) -> dict[str, object]:
    """The scripted providers, imported only by services that use them, because memory is measured."""
    from bench.loop.scripted_model import InstantProvider

    providers: dict[str, object] = {"provider": InstantProvider(delay_seconds)}
    if name == "researcher":
        from bench.loop.instant_search import InstantSearch

        providers["search"] = InstantSearch(delay_seconds)
    return providers


if __name__ == "__main__":
    main()
