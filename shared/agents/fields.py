"""Validated field types of an agent, used by the API and by imports."""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field

from shared.agents import agents, configuration
from shared.agents.model_choice import check_models, renamed_phases
from shared.database.text import refuse_nul
from shared.domains import MAX_DOMAIN_CHARS, MAX_DOMAINS, normalize_domain, without_duplicates
from shared.enums import Phase

MISSION_CHARACTERS: Final = (10, 4000)
INTERVAL_SECONDS: Final = (10, 366 * 24 * 3600)
MODEL_NAME_CHARACTERS: Final = 200


def validate_mission(text: str) -> str:
    """Strips `text` and validates it as a mission. Raises ValueError if it is invalid."""
    mission = text.strip()
    min_length, max_length = MISSION_CHARACTERS
    if not min_length <= len(mission) <= max_length:
        raise ValueError(
            f"a mission has {min_length} to {max_length} characters; this one has {len(mission)}: "
            "say in a sentence or two what to watch, and why"
        )
    return refuse_nul(mission)


Mission = Annotated[str, AfterValidator(validate_mission)]
Name = Annotated[str, AfterValidator(agents.validate_name)]
Prompt = Annotated[str, AfterValidator(configuration.validate_prompt)]
Interval = Annotated[int, Field(ge=INTERVAL_SECONDS[0], le=INTERVAL_SECONDS[1])]
FeedbackRounds = Annotated[int, Field(ge=0, le=2)]
VerificationUsd = Annotated[Decimal, Field(ge=0, le=10_000)]
"""Daily cap of the phase `verification`; 0: nothing is read."""
EntailmentShare = Annotated[float, Field(ge=0, le=1)]


def _with_present_names(models: Any) -> Any:
    return renamed_phases(models) if isinstance(models, Mapping) else models


Models = Annotated[
    dict[
        Phase,
        Annotated[
            str,
            Field(min_length=1, max_length=MODEL_NAME_CHARACTERS),
            AfterValidator(refuse_nul),
            AfterValidator(check_models),
        ],
    ],
    BeforeValidator(_with_present_names),
]
"""Model by phase, or several as `parse_models` reads them."""
MAX_WORD_CHARS: Final = 30
MAX_MEANING_CHARS: Final = 120
MAX_ACTIONS: Final = 8
_WORD: Final = re.compile(r"[^\W_](?:[^\n\r:=\"“”]*[^\s:=\"“”])?")


def validate_actions(actions: Mapping[str, str]) -> dict[str, str]:
    """Validates words for what advice tells the owner to do, each with what it means, and normalizes their white space.

    Raises ValueError if one is invalid.
    """
    if not 1 <= len(actions) <= MAX_ACTIONS:
        raise ValueError(f"an agent has 1 to {MAX_ACTIONS} actions; these are {len(actions)}")
    normal = {" ".join(word.split()): " ".join(text.split()) for word, text in actions.items()}
    if len({word.casefold() for word in normal}) < len(actions):
        raise ValueError("each action must be another word")
    for word, meaning in normal.items():
        if len(word) > MAX_WORD_CHARS or not _WORD.fullmatch(word):
            raise ValueError(
                f"{word[:MAX_WORD_CHARS]!r} is no action: it has at most {MAX_WORD_CHARS} characters, begins with a letter"
                " or digit, and has no colon, equals sign or quotation mark"
            )
        if not 1 <= len(meaning) <= MAX_MEANING_CHARS:
            raise ValueError(
                f"say what {word!r} means, in 1 to {MAX_MEANING_CHARS} characters; this has {len(meaning)}"
            )
        refuse_nul(word + meaning)
    return normal


Actions = Annotated[dict[str, str], AfterValidator(validate_actions)]
"""Words for what advice tells the owner to do, with what each means."""
CORPUS_NAME: Final = r"[a-z0-9][a-z0-9-]{0,79}"
Corpus = Annotated[str, Field(pattern=f"^{CORPUS_NAME}$")]
"""The name under which a corpus of documents was added to the sandbox."""
FIRST_ARCHIVE_DATE: Final = date(1900, 1, 1)


def validate_archive_date(day: date) -> date:
    """Raises ValueError if the day is in the future, or before FIRST_ARCHIVE_DATE."""
    today = datetime.now(UTC).date()
    if day > today:
        raise ValueError(
            f"an archive date cannot be in the future: {day} is later than today, {today} (UTC)"
        )
    if day < FIRST_ARCHIVE_DATE:
        raise ValueError(f"an archive date is {FIRST_ARCHIVE_DATE} or later; this one is {day}")
    return day


ArchiveDate = Annotated[date, AfterValidator(validate_archive_date)]
"""The date that an agent takes for today."""
Domains = Annotated[
    list[Annotated[str, Field(max_length=MAX_DOMAIN_CHARS), AfterValidator(normalize_domain)]],
    Field(max_length=MAX_DOMAINS),
    AfterValidator(without_duplicates),
]
"""Normalized, each once."""
