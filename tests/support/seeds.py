"""Seeds of random tests: printed on failure and settable, so that a failure can be reproduced."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SEED: Final = "VIGIL_TEST_SEED"
SEEDS: Final = "VIGIL_TEST_SEEDS"


def first_seed() -> int:
    """$VIGIL_TEST_SEED, or a random seed. Raises ValueError if it is not an integer."""
    return int(os.environ.get(SEED) or secrets.randbelow(10**9))


def seed_count() -> int | None:
    """$VIGIL_TEST_SEEDS, or None to leave it to the test. Raises ValueError if it is not an integer."""
    value = os.environ.get(SEEDS)
    return int(value) if value else None


@contextmanager
def repeatable(seed: int) -> Iterator[None]:
    """Add a note to errors on how to repeat them: the run with this seed then comes first."""
    try:
        yield
    except Exception as error:
        error.add_note(f"{SEED}={seed} begins with this one")
        raise
