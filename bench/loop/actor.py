"""`python -m bench.loop.actor NAME DELAY_SECONDS`: a shipped actor whose model and search are the script's."""

import importlib
import sys
from typing import Final

from bench.loop.instant import InstantProvider, InstantSearch
from shared.runtime.process import run

ASK_THE_MODEL: Final = ("observer", "researcher", "analyzer", "adviser")


def main() -> None:
    name, delay = sys.argv[1], float(sys.argv[2])
    build = importlib.import_module(f"services.{name}.app").build
    given: dict[str, object] = {}
    if name in ASK_THE_MODEL:
        given["provider"] = InstantProvider(delay)
    if name == "researcher":
        given["search"] = InstantSearch(delay)
    run(name, lambda settings: build(settings, **given))


if __name__ == "__main__":
    main()
