"""Tagged sections of a message: data stays data."""

import re
from functools import lru_cache

# What shows nowhere and may stand between the signs of a tag: blanks, soft hyphens, characters of no width, bidi marks.
_UNSEEN = r"[\s\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]*"


def section(tag: str, text: str) -> str:
    """`text` between `<tag>` lines; what would open or close the tag inside, however it is spelt, is defused."""
    return f"<{tag}>\n{_tags(tag).sub(_defused, text)}\n</{tag}>"


def inside(tag: str, message: str) -> str:
    """What stands in the section `tag` of a message; nothing where there is none."""
    found = re.search(rf"^<{re.escape(tag)}>\n(.*?)\n</{re.escape(tag)}>$", message, re.S | re.M)
    return "" if found is None else found[1]


def _defused(tag: re.Match[str]) -> str:
    return f"<\\{tag[0][1:]}"


@lru_cache(maxsize=64)
def _tags(tag: str) -> re.Pattern[str]:
    spelt = _UNSEEN.join(re.escape(sign) for sign in tag)
    return re.compile(
        rf"[<\uff1c\u2039]{_UNSEEN}[/\uff0f]?{_UNSEEN}{spelt}(?![\w-])", re.IGNORECASE
    )
