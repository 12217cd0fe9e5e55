"""Parses the models of a phase: `gpt-x, then y` is the model gpt-x, and y while gpt-x cannot be used."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from shared.enums import Phase

MAX_MODELS: Final = 5
_THEN: Final = re.compile(r"(?<!\s)\s*+,\s*+then\s++", re.IGNORECASE)
_SUSPECT: Final = re.compile(r"[,;\s]")


def parse_models(text: str) -> tuple[str, ...]:
    """The models in the order in which they are tried. Raises ValueError if `text` is not a list of different models."""
    names = tuple(name.strip() for name in _THEN.split(text.strip()))
    for name in names:
        if not name:
            raise ValueError("name a model before and after each `then`, as in `gpt-x, then y`")
        if _SUSPECT.search(name):
            raise ValueError(
                f"{name!r} is not a model; separate several with `, then `, as in `gpt-x, then y`"
            )
    if len(set(names)) < len(names):
        raise ValueError("each model can be named once")
    if len(names) > MAX_MODELS:
        raise ValueError(f"name at most {MAX_MODELS} models")
    return names


def check_models(text: str) -> str:
    """`text`, if `parse_models` accepts it. Raises ValueError."""
    parse_models(text)
    return text


def split_models(text: str) -> Sequence[str]:
    """The models of a text that `check_models` has accepted, in the order in which they are tried."""
    return _THEN.split(text.strip())


_RENAMED: Final = {"entailment_check": Phase.VERIFICATION.value}
"""Phases by the names that earlier releases stored."""


def renamed_phases(models: Mapping[str, str]) -> dict[str, str]:
    """`models` by phase, with the present names of phases. A present name that is there wins."""
    renamed = {_RENAMED[phase]: text for phase, text in models.items() if phase in _RENAMED}
    return renamed | {phase: text for phase, text in models.items() if phase not in _RENAMED}


def first_model(text: str) -> str:
    """The model that is tried first."""
    return split_models(text)[0]


def provider_names(
    models: Mapping[str, str], default: str, named: Collection[str]
) -> set[str | None]:
    """The providers that an agent uses, also those of models that answer in place of others; None: the default one.

    `models` has the models of the phases for which the agent does not use those of `default`.
    """
    texts = [*models.values(), *([default] if any(phase not in models for phase in Phase) else ())]
    prefixes = [model.partition("/") for text in texts for model in split_models(text)]
    return {prefix if slash and prefix in named else None for prefix, slash, _ in prefixes}
