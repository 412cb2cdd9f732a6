"""What the tests of pages share: a browser."""

import browser
import pytest


@pytest.fixture(scope="module")
def driver(request, tmp_path_factory):
    """A headless Chromium; without one the tests are skipped, or fail under --require-browser."""
    if why := browser.missing():
        (pytest.fail if request.config.getoption("--require-browser") else pytest.skip)(why)
    with browser.chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver
