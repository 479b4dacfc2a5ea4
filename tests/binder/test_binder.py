"""What Binder builds, built: a clean environment from its files, a chapter opened in it as a reader would.

`make test-binder` runs this; it takes minutes, so the ordinary test run does not collect it.
"""

import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from browser import chromium

ROOT = Path(__file__).parents[2]
MINUTE = 60

# Every cell of the notebook on display: its kind, its text, its execution count and its outputs.
CELLS = "() => jupyterapp.shell.currentWidget.content.model.sharedModel.cells.map(cell => cell.toJSON())"
READY = """() => window.jupyterapp?.shell.currentWidget?.sessionContext?.isReady
  && jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'"""
FINISHED = """() => {
  const cells = [...jupyterapp.shell.currentWidget.content.model.cells];
  const code = cells.filter(cell => cell.type === 'code' && cell.sharedModel.getSource().trim());
  const kinds = cell => Array.from({length: cell.outputs.length}, (_, index) => cell.outputs.get(index).type);
  return code.every(cell => cell.executionCount) || code.some(cell => kinds(cell).includes('error'));
}"""


def chapter_with_everything():
    """Return the first chapter with a box, a displayed formula and a registered figure."""
    for file in sorted((ROOT / "notebooks").glob("*.md")):
        text = file.read_text(encoding="utf-8")
        if all(
            re.search(sign, text)
            for sign in (r"\{(admonition|note|tip)\}", r"\{math\}|\$\$", r"figures\.show\(")
        ):
            return file.relative_to(ROOT).as_posix()
    raise AssertionError("no chapter has an admonition, a displayed formula and a figure")


def base_python():
    """Return the interpreter that binder/runtime.txt names."""
    version = (ROOT / "binder" / "runtime.txt").read_text().strip().removeprefix("python-")
    if f"{sys.version_info.major}.{sys.version_info.minor}" == version:
        return sys.executable
    found = shutil.which(f"python{version}")
    assert found, f"binder/runtime.txt asks for Python {version}, which is not on the PATH"
    return found


class Image:
    """A copy of the repository with an environment of its own, as Binder would have it."""

    def __init__(self, folder):
        self.repository, self.home, self.environment = (
            folder / "repository",
            folder / "home",
            folder / "environment",
        )
        self.home.mkdir(exist_ok=True)

    def build(self):
        files = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
        for name in filter(lambda name: (ROOT / name).is_file(), files):
            (self.repository / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.repository / name)
        subprocess.run([base_python(), "-m", "venv", self.environment], check=True)
        self.run("python", "-m", "pip", "install", "--quiet", "-r", "binder/requirements.txt")
        self.run("binder/postBuild")

    def variables(self):
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "JUPYTER"))
        }
        path = f"{self.environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return {**kept, "HOME": str(self.home), "PATH": path, "VIRTUAL_ENV": str(self.environment)}

    def run(self, command, *arguments):
        program = shutil.which(command, path=self.variables()["PATH"]) or str(self.repository / command)
        result = subprocess.run(
            [program, *arguments],
            cwd=self.repository,
            env=self.variables(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stdout
        return result.stdout

    def lab(self, port, token):
        options = [
            "--no-browser",
            "--allow-root",
            "--ip=127.0.0.1",
            f"--port={port}",
            "--ServerApp.port_retries=0",
        ]
        # The application is exposed so that the test can read the cells that are scrolled out of view.
        options += [f"--IdentityProvider.token={token}", "--LabApp.expose_app_in_browser=True"]
        with (self.home / "lab.log").open("w") as log:
            return subprocess.Popen(
                [self.repository / "binder" / "start", self.environment / "bin" / "jupyter", "lab", *options],
                cwd=self.repository,
                env=self.variables(),
                stdout=log,
                stderr=subprocess.STDOUT,
            )


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    image = Image(tmp_path_factory.mktemp("binder"))
    image.build()
    return image


@pytest.fixture(scope="module")
def lab(image):
    """The address of a running JupyterLab and the token that opens it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = secrets.token_hex(16)
    process = image.lab(port, token)
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(f"{address}/api?token={token}", process, image.home / "lab.log")
        yield address, token
    finally:
        process.terminate()
        process.wait(timeout=MINUTE)


def _wait_for(url, process, log):
    deadline = time.monotonic() + 2 * MINUTE
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, TimeoutError):
            time.sleep(0.5)
    raise AssertionError(f"JupyterLab did not start:\n{log.read_text()}")


@pytest.fixture(scope="module")
def opened(lab):
    """The chapter, opened by the address to which the launch button leads."""
    address, token = lab
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.set_default_timeout(3 * MINUTE * 1000)
        page.goto(f"{address}/lab/tree/{chapter_with_everything()}?token={token}")
        page.wait_for_function(READY)
        yield page


def test_the_environment_is_consistent(image):
    assert "No broken requirements found" in image.run("python", "-m", "pip", "check")


def test_extensions_suit_this_jupyterlab(image):
    listed = image.run("jupyter", "labextension", "list")
    plain = re.sub(r"\x1b\[\d+m", "", listed)
    assert re.search(r"jupyterlab-myst v\S+ enabled OK", plain), plain
    assert re.search(r"jupyterlab-jupytext v\S+ enabled OK", plain), plain
    assert "incompatible" not in plain.lower()
    assert "not compatible" not in plain.lower()


def test_chapter_opens_as_a_notebook(opened):
    panel = opened.locator(".jp-NotebookPanel:visible")
    assert panel.count() == 1
    kinds = {cell["cell_type"] for cell in opened.evaluate(CELLS)}
    assert {"markdown", "code"} <= kinds


def test_myst_is_rendered(opened):
    boxes, formulas = 0, 0
    cells = opened.evaluate(CELLS)
    for index, cell in enumerate(cells):
        if cell["cell_type"] != "markdown":
            continue
        # Cells out of view are not drawn: bring each to the screen, as a reader does.
        opened.evaluate("index => jupyterapp.shell.currentWidget.content.scrollToItem(index)", index)
        shown = opened.locator(
            f".jp-NotebookPanel:visible .jp-Cell[data-windowed-list-index='{index}'] .myst"
        )
        shown.first.wait_for()
        assert not re.search(
            r"^:::|```|\{(admonition|note|tip|math|prf:\w+|exercise)\}", shown.first.inner_text(), re.M
        )
        boxes += shown.locator("aside, .admonition").count()
        formulas += shown.locator(".katex").count()
    assert boxes >= 1
    assert formulas >= 1


def test_all_cells_run_without_error(opened):
    opened.locator(".lm-MenuBar-itemLabel").get_by_text("Run", exact=True).click()
    opened.locator(".lm-Menu-itemLabel").get_by_text("Run All Cells", exact=True).click()
    opened.wait_for_function(FINISHED, timeout=10 * MINUTE * 1000, polling=1000)
    cells = [cell for cell in opened.evaluate(CELLS) if cell["cell_type"] == "code"]
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert [output["traceback"] for output in outputs if output["output_type"] == "error"] == []
    pages = ["".join(output.get("data", {}).get("text/html", "")) for output in outputs]
    assert any(re.search(r'<figure><img [^>]*alt="[^"]+"', page) for page in pages)
