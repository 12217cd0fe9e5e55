"""The browser that tests drive."""

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

from bench.chromium import ARGUMENTS, program


@contextmanager
def chromium() -> Iterator[Browser]:
    found = program()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield browser
        browser.close()
