"""The site over a loopback server below a sub-path, and one browser for all of its pages."""

import re
import threading
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from browser import chromium
from pages import CHAPTERS, PAGES, PROSE, SITE
from visit import DESKTOP, PATIENCE, PREFIX, study
from xdist.scheduler import LoadScopeScheduling


def pytest_generate_tests(metafunc):
    for name, values in (("page", PAGES), ("prose", PROSE), ("chapter", CHAPTERS)):
        if name in metafunc.fixturenames:
            if not values:
                raise pytest.UsageError(f"no pages in {SITE}: build the book first (make book)")
            metafunc.parametrize(name, values)


#: Modules that read the files of all pages: together, so that each is parsed once.
READERS = ("test_links.py", "test_reference.py", "test_registry.py")


class OnePageOneProcess(LoadScopeScheduling):
    """Shares the pages among the processes of `-n`, so that each page is visited by one of them only.

    What does not visit every page stays together with its module. (The scheduling by groups of pytest-xdist
    3.8 would do the same, but has no effect under pytest 9.)
    """

    def _split_scope(self, nodeid):
        module, _, test = nodeid.partition("::")
        page = re.search(r"[\w/-]+\.html", test) if module.endswith("test_pages.py") else None
        return "files" if module.endswith(READERS) else page[0] if page else module


def pytest_xdist_make_scheduler(config, log):
    return OnePageOneProcess(config, log)


class SubPath(SimpleHTTPRequestHandler):
    """Serve the site below `PREFIX` and nothing anywhere else."""

    def translate_path(self, path):
        if not path.startswith(PREFIX):
            return str(SITE / "not-below-the-sub-path")
        return super().translate_path("/" + path.removeprefix(PREFIX))

    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def address():
    """Return the address below which the site is served."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SubPath, directory=str(SITE))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}{PREFIX}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def context():
    """Return the browser window that all visits share."""
    with chromium() as browser:
        context = browser.new_context(viewport=DESKTOP)
        context.set_default_timeout(PATIENCE)
        yield context


@pytest.fixture(scope="session")
def studied(context, address):
    """Return a function that studies a page once and remembers what it saw."""
    return cache(lambda page: study(context, address + page))
