"""The browser that is driven: Debian's, or whichever $VIGIL_CHROMIUM names."""

import os
import shutil
from typing import Final

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS: Final = [
    # Containers mostly have no user namespaces, without which its sandbox does not start; it opens nothing but our pages.
    "--no-sandbox",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
]


def program() -> str:
    """Raises FileNotFoundError where there is none."""
    named = os.environ.get("VIGIL_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        raise FileNotFoundError(
            "There is no Chromium here: `apt install chromium`, or name one by VIGIL_CHROMIUM."
        )
    return found
