"""The browser that tests drive: Debian's, or whichever $VIGIL_CHROMIUM names."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest
from playwright.sync_api import Browser, sync_playwright

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> Iterator[Browser]:
    named = os.environ.get("VIGIL_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.fail(
            "There is no Chromium here: `apt install chromium`, or name one by VIGIL_CHROMIUM."
        )
    # Containers mostly have no user namespaces, without which its sandbox does not start; it opens nothing but our pages.
    arguments = [
        "--no-sandbox",
        "--use-gl=angle",
        "--use-angle=swiftshader",
        "--enable-unsafe-swiftshader",
    ]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=arguments)
        yield browser
        browser.close()
