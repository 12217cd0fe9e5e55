"""The extent of the attack tests: short, or full as in `make test-attacks`."""

import os
from typing import Final

MODE: Final = "VIGIL_TEST_ATTACKS"
FULL: Final = "full"
# Read at import: during a test Vigil's variables are unset.
_MODE: Final = os.environ.get(MODE)


def in_full() -> bool:
    """Whether $VIGIL_TEST_ATTACKS is set to the full extent."""
    return _MODE == FULL
