"""One thing that the graph lacks, worded as a query."""

from dataclasses import dataclass
from typing import Any

from sandbox.text.english import is_plural, shortened
from sandbox.text.subject import Subject, names_one
from sandbox.text.words import topic_stems

MISSION_CHARS = 160


@dataclass(frozen=True, slots=True)
class Gap:
    """`objective` without its full stop, `why` as a clause that tells what the graph lacks."""

    objective: str
    why: str
    hints: tuple[str, ...]
    answers: tuple[str, ...] = ()
    """Ids of investigation requests."""

    def query(self, mission: str) -> dict[str, Any]:
        """As the observer's plan holds it."""
        asked = shortened(" ".join(mission.split()), MISSION_CHARS).rstrip(".")
        return {
            "objective": f"{self.objective}.",
            "reasoning": f"{self.why}. The mission asks: “{asked}”.",
            "searchHints": list(dict.fromkeys(self.hints)),
            "answers": list(self.answers),
        }

    def was_asked(self, asked: list[str]) -> bool:
        """Whether an earlier objective holds every significant word of this one."""
        own = topic_stems(self.objective)
        return any(own <= topic_stems(line) for line in asked)


def nearest_topic(subject: Subject, text: str) -> str:
    """The term of the mission that `text` speaks of most; empty where the mission has none."""
    told = topic_stems(text)
    return max(subject.terms(), key=lambda term: len(told & topic_stems(term)), default="")


def about(name: str, topic: str) -> str:
    """An objective that ties a name to the mission."""
    if not topic:
        return f"Find out about {name}"
    several = name[:1].islower() and is_plural(name)
    if names_one(topic):
        return f"Find out how {name} {'are' if several else 'is'} connected with {topic}"
    return f"Find out how {name} {'bear' if several else 'bears'} on {topic}"


def plain(term: str) -> str:
    """Without its article, as it is searched for."""
    return term.removeprefix("the ")


def hints(name: str, topic: str) -> tuple[str, ...]:
    """A name with the mission's term, and alone."""
    return (f"{name} {plain(topic)}".strip(), name)
