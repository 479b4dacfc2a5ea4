"""A headless Chromium for the tests that read pages as a reader does."""

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

# In this order: on some systems chromium-browser is a confined package that cannot read the site.
NAMES = ("chromium", "google-chrome", "google-chrome-stable", "chromium-browser")
# No sandbox: containers run as root; no traffic of the browser's own.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]


@contextmanager
def chromium():
    """Yield a browser; without one skip with the reason, or fail where tests must not be skipped (CI)."""
    with sync_playwright() as playwright:
        bundled = Path(playwright.chromium.executable_path)
        found = next(filter(None, map(shutil.which, NAMES)), bundled if bundled.exists() else None)
        if found is None:
            reason = (
                f"no Chromium found: none of {', '.join(NAMES)} on the PATH, none installed by Playwright"
            )
            (pytest.fail if "CI" in os.environ else pytest.skip)(reason)
        browser = playwright.chromium.launch(executable_path=str(found), args=FLAGS)
        yield browser
        browser.close()
