"""Where random tests begin: told when they fail, and settable, so that what failed once can be made to fail again."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SEED: Final = "VIGIL_TEST_SEED"
SEEDS: Final = "VIGIL_TEST_SEEDS"


def first_seed() -> int:
    """What $VIGIL_TEST_SEED says, or a fresh one. Raises ValueError where it is no whole number."""
    return int(os.environ.get(SEED) or secrets.randbelow(10**9))


def seed_count() -> int | None:
    """How many seeds $VIGIL_TEST_SEEDS asks for; None leaves it to the test. Raises ValueError as above."""
    given = os.environ.get(SEEDS)
    return int(given) if given else None


@contextmanager
def repeatable(seed: int) -> Iterator[None]:
    """Whatever goes wrong inside says how to repeat it: the run of this seed comes first then."""
    try:
        yield
    except Exception as error:
        error.add_note(f"{SEED}={seed} begins with this one")
        raise
