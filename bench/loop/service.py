"""`python -m bench.loop.service NAME PROVIDERS`: a shipped service.

PROVIDERS is `http` for the shipped clients, or the seconds after which the scripted model and search answer in the process.
"""

import importlib
import os
import sys
from pathlib import Path
from typing import Final

from bench.loop.trips import TRIPS_FILE, count_trips
from shared.runtime.process import run

MODEL_CALLERS: Final = ("observer", "researcher", "analyzer", "adviser")


def main() -> None:
    name, providers_mode = sys.argv[1:]
    if (file := os.environ.get(TRIPS_FILE)) is not None:
        count_trips(Path(file))
    build = importlib.import_module(f"services.{name}.app").build
    is_scripted = name in MODEL_CALLERS and providers_mode != "http"
    providers = _providers(name, float(providers_mode)) if is_scripted else {}
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
