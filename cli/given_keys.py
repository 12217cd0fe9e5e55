"""The keys of the model and the search service, handed on to those services that use them and to no others."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

MODEL_KEY: Final = "openai_api_key"
SEARCH_KEY: Final = "tavily_api_key"

USED_BY: Final[Mapping[str, tuple[str, ...]]] = {
    MODEL_KEY: ("observer", "researcher", "analyzer", "adviser", "concierge", "api"),
    SEARCH_KEY: ("researcher", "concierge", "api"),
}


def read_given(directory: Path) -> dict[str, str]:
    """By name, from the file of that name in `directory` or, where that is empty, the one with `_file` behind it."""
    found = {}
    for name in USED_BY:
        for file in (directory / name, directory / f"{name}_file"):
            with suppress(FileNotFoundError):
                if given := file.read_text().strip():
                    found[name] = given
                    break
    return found
