"""Where things are in the checkout."""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
TESTS: Final = ROOT / "tests"
CORPUS: Final = TESTS / "corpus"
"""What the sandbox answers from."""
