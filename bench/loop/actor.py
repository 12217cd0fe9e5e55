"""`python -m bench.loop.actor NAME DELAY_SECONDS`: a shipped actor whose model and search are the script's."""

import importlib
import sys
from typing import Final

from shared.runtime.process import run

ASK_THE_MODEL: Final = ("observer", "researcher", "analyzer", "adviser")


def main() -> None:
    name, delay = sys.argv[1], float(sys.argv[2])
    build = importlib.import_module(f"services.{name}.app").build
    given = _instant(name, delay) if name in ASK_THE_MODEL else {}
    run(name, lambda settings: build(settings, **given))


def _instant(name: str, delay_seconds: float) -> dict[str, object]:
    """Loaded by those alone who ask, as what stands in its place is: memory is measured too."""
    from bench.loop.instant import InstantProvider

    given: dict[str, object] = {"provider": InstantProvider(delay_seconds)}
    if name == "researcher":
        from bench.loop.instant_search import InstantSearch

        given["search"] = InstantSearch(delay_seconds)
    return given


if __name__ == "__main__":
    main()
