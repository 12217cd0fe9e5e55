"""Meta prompts: the requirements for each of the six system prompts that the model writes, from `meta.toml`."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from shared.enums import Phase


@dataclass(frozen=True)
class Requirement:
    """A requirement for a prompt, under one heading."""

    about: str
    points: tuple[str, ...]


@dataclass(frozen=True)
class MetaPrompt:
    """The requirements for one system prompt."""

    phase: Phase
    role: str
    """The reader of the prompt, as in "You are the Observer of …"."""
    paragraphs: tuple[int, int]
    tools: tuple[str, ...]
    """All tools of the phase."""
    situation: str
    """The input of the phase, and the use of its output."""
    demands: tuple[Requirement, ...]


def _load_meta_prompts(path: Path) -> tuple[MetaPrompt, ...]:
    return tuple(
        MetaPrompt(
            Phase(prompt["phase"]),
            prompt["role"],
            (prompt["paragraphs"][0], prompt["paragraphs"][1]),
            tuple(prompt["tools"]),
            prompt["situation"],
            tuple(
                Requirement(demand["about"], tuple(demand["points"]))
                for demand in prompt["demands"]
            ),
        )
        for prompt in tomllib.loads(path.read_text("utf-8"))["prompts"]
    )


META_PROMPTS: Final = _load_meta_prompts(Path(__file__).with_suffix(".toml"))
