"""The browser for the end-to-end tests: `python tests/browser.py` makes sure that there is one."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find_browser() -> str | None:
    """Return the path of a Chromium or Chrome: the system's, else Playwright's own, else None."""
    for name in NAMES:
        if path := shutil.which(name):
            return path
    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser, and close it at the end; it is looked for first, because one Playwright cannot run inside another."""
    path = find_browser()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=QUIET)
        yield browser
        browser.close()


def main() -> None:
    """Find a browser, or download one, or say how to install one."""
    if find_browser():
        return
    print("No Chromium or Chrome found: downloading one with Playwright.")
    subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"])
    if not find_browser():
        sys.exit(
            "The browser tests need Chromium, and the download failed. Install it, then run this again:\n"
            "    sudo apt-get install chromium      (macOS: brew install --cask chromium)\n"
            "Without a browser, `make test-fast` runs the quick tests."
        )


if __name__ == "__main__":
    main()
