"""Prices for the sandbox, where a test looks at what calls cost."""

from pathlib import Path
from typing import Final

SANDBOX_PRICES: Final = Path(__file__).with_suffix(".toml")
