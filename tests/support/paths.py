"""Paths in the checkout."""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
TESTS: Final = ROOT / "tests"
CORPUS: Final = TESTS / "corpus"
"""The sandbox's corpus."""
SANDBOX_SUPPORT: Final = TESTS / "support" / "sandbox"
