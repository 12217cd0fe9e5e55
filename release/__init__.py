"""What `make wheel`, `make sbom`, `make audit` and `make pins` run, as docs/operations/supply-chain.md describes.

It is not part of the wheel.
"""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
