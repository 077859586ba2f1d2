"""The pages of the site, as far as Sphinx is not needed: `make docs` builds them."""

import re
import shutil
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import kernelquilt as kq
from discovery import estimators, public

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
GENERATED = {"_build", "api", "gallery"}
PAGES = sorted(
    path for path in DOCS.rglob("*.md") if path.relative_to(DOCS).parts[0] not in GENERATED
)


def load(path):
    spec = spec_from_file_location(path.stem, path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def name_of(page):
    return str(page.relative_to(DOCS))


@pytest.mark.parametrize("page", [p for p in PAGES if "```python" in p.read_text()], ids=name_of)
def test_examples_of_the_docs_run(page, tmp_path, monkeypatch, capsys):
    code = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    exec(compile(code, page.name, "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().err == ""


def test_every_public_name_is_in_the_api_reference():
    pages = load(DOCS / "reference.py").pages()
    for name in public():
        family, _, last = name.rpartition(".")
        page = pages[f"{family}.rst" if family else "index.rst"]
        assert f"\n   {last}\n" in page, f"{name} is not in the API reference"


def test_a_page_says_of_every_estimator_what_it_is_for():
    text = (DOCS / "guide" / "all_methods.md").read_text()
    for estimator in estimators():
        assert f"`{estimator.__name__}`" in text, estimator.__name__


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pages_tell_what_is_measured_and_not_what_was_hoped_for(page):
    assert not re.findall(r"^\|.*\| targets?\b.*$", page.read_text(), flags=re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_of_the_docs_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path = target.partition("#")[0]
        if path and "://" not in path and path.split("/")[0] not in GENERATED:
            # what the build generates is checked by it
            parts = (page.parent / path).resolve().relative_to(ROOT).parts
            if parts[:1] == ("docs",) and parts[1] in GENERATED:
                continue
            assert (page.parent / path).exists(), f"{name_of(page)}: {target}"


def test_every_page_is_reached_from_the_first():
    reached, todo = set(), [DOCS / "index.md"]
    while todo:
        page = todo.pop()
        reached.add(page)
        for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), flags=re.DOTALL):
            for line in block.splitlines():
                if line and not line.startswith(":"):
                    entry = re.search(r"<(.*)>", line)
                    found = page.parent.glob(f"{entry[1] if entry else line}.md")
                    todo += [path for each in found if (path := each.resolve()) not in reached]
    assert set(PAGES) <= reached, sorted(name_of(page) for page in set(PAGES) - reached)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_examples_end_in_a_figure(path):
    if path.name == "write_patients.py":  # writes a file for the command line
        return
    assert path.name.startswith("plot_"), "the gallery runs plot_*.py"
    last = path.read_text().rpartition("\n# %%\n")[2]
    assert last.endswith("\nplt.show()\n")


def test_the_page_on_citing_is_made_from_the_file_on_citing():
    pytest.importorskip("yaml", reason="PyYAML is not installed")
    package, papers = load(DOCS / "citation.py").entries()
    assert f"version = {{{kq.__version__}}}" in package
    assert papers.count("@") == papers.count("author = {") == 5
    assert papers.count("{") == papers.count("}")


@pytest.fixture(scope="module")
def site():
    pages = DOCS / "_build" / "html"
    if not (pages / "index.html").exists():
        pytest.skip("the site is not built: make docs")
    return pages


@pytest.mark.browser
def test_links_of_the_site_lead_somewhere(site):
    assert not load(DOCS / "check_site.py").dead_links(site)


@pytest.mark.browser
def test_every_page_of_the_site_in_a_browser(site):
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium")
    assert not load(DOCS / "check_site.py").problems_in_browser(site, chromium)


@pytest.mark.browser
def test_the_site_is_small(site):
    assert sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) < 30e6
