"""What the sandbox knows of fact sheets, from `sheets.toml`: words of labels, relations that lists state, types of nodes."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_DATA: Final[Mapping[str, Any]] = tomllib.loads(
    Path(__file__).with_name("sheets.toml").read_text("utf-8")
)
COUNTRY: Final = "Country"
SUBJECT: Final = "Subject"
SAME: Final = ""
"""The entries of a list have the type of the subject."""


@dataclass(frozen=True, slots=True)
class Relation:
    """The relation between a subject and the entries of a list under one label."""

    words: str
    """The words between source and target in the description of the edge type."""
    target_type: str = SAME


RELATED_WORDS: Final[Mapping[str, str]] = _DATA["related_words"]
RELATIONS: Final = {name: Relation(**relation) for name, relation in _DATA["relations"].items()}
TYPES: Final[Mapping[str, str]] = _DATA["types"]
FIGURES: Final[Mapping[str, str]] = _DATA["figures"]
PROMPTS: Final[Mapping[str, str]] = _DATA["prompts"]
