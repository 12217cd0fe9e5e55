"""How hard the attacks of this run are: in their short form, or as `make test-attacks` has them."""

import os
from typing import Final

MODE: Final = "VIGIL_TEST_ATTACKS"
FULL: Final = "full"
# Read once: while a test runs no variable of Vigil's is set.
_WANTED: Final = os.environ.get(MODE)


def in_full() -> bool:
    """Whether $VIGIL_TEST_ATTACKS asks for the full form."""
    return _WANTED == FULL
