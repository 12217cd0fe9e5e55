"""The Chromium that the browser tests use."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from playwright.sync_api import Browser, sync_playwright

_CHROMIUM_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM_ARGUMENTS: Final = [
    # Most containers have no user namespaces, which Chromium's own sandbox needs; it opens only our pages.
    "--no-sandbox",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
]


def chromium_path() -> str:
    """The path of Chromium: $VIGIL_CHROMIUM or an installed one. Raises FileNotFoundError."""
    setting = os.environ.get("VIGIL_CHROMIUM")
    path = setting or next(filter(None, map(shutil.which, _CHROMIUM_NAMES)), None)
    if path is None:
        raise FileNotFoundError(
            "There is no Chromium here: `apt install chromium`, or name one by VIGIL_CHROMIUM."
        )
    return path


@contextmanager
def chromium() -> Iterator[Browser]:
    path = chromium_path()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_ARGUMENTS)
        yield browser
        browser.close()
