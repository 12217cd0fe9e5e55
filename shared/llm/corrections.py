"""The one request of a phase in which the model corrects refused calls, without the conversation before it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from shared.llm.messages import wrap_section
from shared.llm.toolset import Calls, ToolUse
from shared.tools import AWAITS_KEY, FINAL_KEY, Json

CallMaterial = Callable[[Sequence[ToolUse]], str]
"""The sections that a model needs to correct the calls, such as the sentences that they cite; may be empty."""

_TASK: Final = (
    "These calls of your last answer were refused. All others are done, and edges of what you correct follow by themselves. "
    "Correct each as it says, in one answer, or leave it out."
)


@dataclass(frozen=True)
class Correction:
    """Refused calls that the model may correct once, and the calls that wait for the nodes of these."""

    refused: Sequence[ToolUse]
    waiting: Sequence[ToolUse]

    @classmethod
    def of(
        cls, uses: Sequence[ToolUse], results: Mapping[str, Json], *, includes_final: bool
    ) -> "Correction | None":
        """None if no call is to be corrected. `includes_final`: those too that are otherwise left out."""
        failed = [use for use in uses if "error" in results[use.key]]
        refused = [
            use
            for use in failed
            if AWAITS_KEY not in results[use.key]
            and (includes_final or not results[use.key].get(FINAL_KEY))
        ]
        if not refused:
            return None
        names = {_name_of(use) for use in refused}
        waiting = [use for use in failed if results[use.key].get(AWAITS_KEY) in names]
        return cls(refused, waiting)

    @property
    def tools(self) -> frozenset[str]:
        """The names of the tools that it needs."""
        return frozenset(use.call.name for use in self.refused)

    def message(self, replies: Sequence[Json], material: str) -> str:
        """`replies` are the results of the refused calls as they are shown to the model."""
        calls = [
            f"{use.call.name} {use.call.arguments}\n→ {reply['error']}"
            + "".join(f"\n{line}" for line in reply.get("claims", ()))
            for use, reply in zip(self.refused, replies, strict=True)
        ]
        sections = [wrap_section("refused", "\n\n".join(calls)), material, _TASK]
        return "\n\n".join(filter(None, sections))

    def repeated(self, uses: Sequence[ToolUse]) -> Calls:
        """The waiting calls, with the names that the corrected calls `uses` give their nodes."""
        old = list(filter(None, map(_name_of, self.refused)))
        new = [name for use in uses if use.call.name in self.tools and (name := _name_of(use))]
        renamed = dict(zip(old, new, strict=True)) if len(old) == len(new) else {}
        renamed |= {name: name for name in old if name in new}
        calls: list[tuple[str, Json]] = []
        for use in self.waiting:
            arguments = _arguments(use)
            ends = {key: one for key, one in arguments.items() if _one_line(one) in old}
            if all(_one_line(one) in renamed for one in ends.values()):
                changed = {key: renamed[_one_line(one)] for key, one in ends.items()}
                calls.append((use.call.name, {**arguments, **changed}))
        return calls


def _arguments(use: ToolUse) -> Json:
    try:
        arguments = json.loads(use.call.arguments)
    except ValueError:
        return {}
    return arguments if isinstance(arguments, dict) else {}


def _name_of(use: ToolUse) -> str:
    return _one_line(_arguments(use).get("name"))


def _one_line(value: Any) -> str:
    return " ".join(value.split()) if isinstance(value, str) else ""
