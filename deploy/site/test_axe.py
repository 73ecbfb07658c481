"""axe, which `npm ci --prefix deploy/site` brings, finds nothing serious on the site: .ci/run has it look in Chromium."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.chapters import CHAPTERS
from tests.web_site import a_browser, built_site

__all__ = ["a_browser", "built_site"]

AXE = Path(__file__).parent / "node_modules/axe-core/axe.min.js"
LOOKED_AT = {
    "light": ["index", "exercises", "search", "docs/workshop", *(f"notebooks/{name}" for name in CHAPTERS)],
    "dark": ["index", "notebooks/ch01_tasks", "de/index", "de/notebooks/ch01_tasks"],
}


@pytest.mark.parametrize("scheme", LOOKED_AT)
def test_axe_finds_nothing_serious(scheme: str, built: Path, browser: Browser):
    # Without motion: the theme turns a page dark as it loads, and a button that is still on its way there is too pale.
    context = browser.new_context(color_scheme=scheme, reduced_motion="reduce")
    tab, found = context.new_page(), []
    for name in LOOKED_AT[scheme]:
        tab.goto((built / f"{name}.html").as_uri())
        tab.add_script_tag(path=AXE)
        broken = tab.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
        serious = [one for one in broken if one["impact"] in ("serious", "critical")]
        found += [f"{name}: {one['id']}: {one['nodes'][0]['html'][:200]}" for one in serious]
    context.close()
    assert found == []
