"""Statements that are given a list whose values stand in them one by one.

For a list as one value PostgreSQL would plan them anew each time, which takes as long as what they do.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from shared.store.direct import Direct

_KEPT: Final = 128


def spelled(sql: str, name: str, values: Sequence[Any]) -> tuple[Direct, dict[str, Any]]:
    """`sql` with the placeholders of so many values instead of `{values}`, and these by their names.

    None at all are one that nothing is equal to.
    """
    given = {f"{name}{place}": value for place, value in enumerate(values)}
    return _of(sql, tuple(given)), given


@lru_cache(maxsize=_KEPT)
def _of(sql: str, names: tuple[str, ...]) -> Direct:
    return Direct(sql.format(values=", ".join(f":{name}" for name in names) or "null"))
