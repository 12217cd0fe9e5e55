"""Prices for the sandbox, for tests of costs."""

from pathlib import Path
from typing import Final

SANDBOX_PRICES: Final = Path(__file__).with_suffix(".toml")
