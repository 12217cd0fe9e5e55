"""Words that say which way something goes."""

import re

from sandbox.text.word_set import word_set

RISING = word_set(
    """
    accelerate accelerated accelerating boost boosted climb climbed climbing doubled exceed exceeded
    expand expanded expanding expansion gain gained gains grew grow growing grown growth higher
    improve improved improving increase increased increases increasing jump jumped rise risen rises
    rising rose soar soared strengthened surge surged tripled up
    """
)
FALLING = word_set(
    """
    collapse collapsed contract contracted contraction cut decline declined declines declining
    decrease decreased decreases decreasing down drop dropped drops fall fallen falling falls fell
    halved lose losing loss losses lost lower plunge plunged reduced shrank shrink shrinking slowed
    slump slumped tumbled weaken weakened worsened
    """
)
LEVEL = word_set(
    "amounted averaged hit reach reached remained stand stands stood total totaled totalled"
)
LOWER_WORD = re.compile(r"[a-z]+")


def is_trend_word(word: str) -> bool:
    """Says how a figure moved or stands, and not what it is a figure of."""
    return word.lower() in RISING | FALLING | LEVEL


def count_trends(text: str) -> tuple[int, int]:
    """How many rising and how many falling words `text` holds."""
    found = LOWER_WORD.findall(text.lower())
    return sum(word in RISING for word in found), sum(word in FALLING for word in found)


def is_level_word(word: str) -> bool:
    """Says where a figure stands, and no direction."""
    return word.lower() in LEVEL
