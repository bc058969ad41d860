"""The site builds without a warning, and needs nothing from another host."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT


class _Page(HTMLParser):
    """What a page loads, its title, and its headings."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.title = ""
        self.n_headings = 0
        self.drawings = 0
        self._in_title = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "link" and given.get("rel") not in ("next", "prev", "canonical"):
            self.loads.append(given.get("href", ""))
        elif tag != "a":
            self.loads += [given[name] for name in ("src", "srcset", "poster", "data") if name in given]
        self._in_title = tag == "title" and not self.title
        self.n_headings += tag == "h1"
        self.drawings += tag == "svg" and given.get("class") == "drawing"

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data

    def handle_endtag(self, tag: str) -> None:
        self._in_title = False


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def _pages(site: Path) -> Iterator[tuple[str, _Page]]:
    for path in sorted(site.rglob("*.html")):
        yield path.relative_to(site).as_posix(), _Page(path.read_text(encoding="utf-8"))


def test_every_page_of_the_folder_is_a_page_of_the_site(site: Path) -> None:
    built = {name.removesuffix(".html") for name, _ in _pages(site)}
    assert built - {"404"} == {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")}


def test_nothing_comes_from_another_host(site: Path) -> None:
    for name, page in _pages(site):
        assert page.loads, name
        foreign = [each for each in page.loads if each.startswith(("http:", "https:", "//"))]
        assert foreign == [], name
    for path in (*site.rglob("*.css"), *site.rglob("*.svg")):
        text = path.read_text(encoding="utf-8")
        assert "url(http" not in text.replace('"', ""), path
        assert "@import" not in text, path


def test_what_the_pages_load_is_there(site: Path) -> None:
    for name, page in _pages(site):
        if name != "404.html":  # its addresses begin at the root of a host
            missing = [
                each
                for each in page.loads
                if not each.startswith("data:") and not (site / name).parent.joinpath(each).is_file()
            ]
            assert missing == [], name


def test_every_page_has_a_title_and_a_heading(site: Path) -> None:
    titles = {name: page.title.strip() for name, page in _pages(site) if name != "404.html"}
    assert all(titles.values())
    assert len(set(titles.values())) == len(titles), "two pages have one title"
    assert all(page.n_headings >= 1 for name, page in _pages(site) if name != "404.html")


def test_the_drawing_is_part_of_its_page(site: Path) -> None:
    """So it follows the reader's choice of light or dark, which an image cannot."""
    assert [name for name, page in _pages(site) if page.drawings] == ["how-it-works.html"]


def test_what_the_readme_links_to_is_there(site: Path) -> None:
    """Links between the pages are checked by the build."""
    links = re.findall(r"\]\(docs/([^)#]+)\.md(?:#([^)]+))?\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert links
    for page, anchor in links:
        built = site / f"{page}.html"
        assert built.is_file(), page
        assert not anchor or f'id="{anchor}"' in built.read_text(encoding="utf-8"), (page, anchor)
