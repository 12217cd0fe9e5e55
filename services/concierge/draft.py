"""An answer under way as it is stored, pure: what was said stays, or is begun anew under a higher number."""

from dataclasses import dataclass, replace
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Draft:
    """Within one number the content is only ever added to, so that whoever has read a part can read on from there."""

    number: int
    content: str
    looked: tuple[Json, ...] = ()
    """What was looked at so far: `{"tool", "about"}` in order. A resumed answer looks at the same again."""

    def saying(self, text: str) -> "Draft":
        """When the answer says `text` so far.

        One that was begun before may catch up with what was said then: it is new only where it says something else.
        """
        if self.content.startswith(text):
            return self
        return self.saying_all(text)

    def saying_all(self, text: str) -> "Draft":
        """When the answer says `text`, and no more."""
        if text.startswith(self.content):
            return replace(self, content=text)
        return replace(self, number=self.number + 1, content=text)

    def looking(self, looks: tuple[Json, ...]) -> "Draft":
        """When `looks` are all that was looked at so far."""
        return replace(self, looked=looks) if len(looks) > len(self.looked) else self
