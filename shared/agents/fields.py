"""What the fields that people write of an agent may hold: one definition for the API and for imports."""

from typing import Annotated, Final

from pydantic import AfterValidator, Field

from shared.agents import agents, configuration
from shared.database.text import refuse_nul
from shared.enums import Phase

MISSION_CHARACTERS: Final = (10, 4000)
INTERVAL_SECONDS: Final = (10, 366 * 24 * 3600)
MODEL_NAME_CHARACTERS: Final = 200


def checked_mission(text: str) -> str:
    """`text` without white space around it. Raises ValueError where it can be no mission."""
    mission = text.strip()
    shortest, longest = MISSION_CHARACTERS
    if not shortest <= len(mission) <= longest:
        raise ValueError(
            f"a mission has {shortest} to {longest} characters, this one {len(mission)}: "
            "say in a sentence or more what to watch, and to what end"
        )
    return refuse_nul(mission)


Mission = Annotated[str, AfterValidator(checked_mission)]
Name = Annotated[str, AfterValidator(agents.checked)]
Prompt = Annotated[str, AfterValidator(configuration.checked)]
Interval = Annotated[int, Field(ge=INTERVAL_SECONDS[0], le=INTERVAL_SECONDS[1])]
FeedbackRounds = Annotated[int, Field(ge=0, le=2)]
Models = dict[
    Phase,
    Annotated[
        str, Field(min_length=1, max_length=MODEL_NAME_CHARACTERS), AfterValidator(refuse_nul)
    ],
]
"""Phase to model."""
