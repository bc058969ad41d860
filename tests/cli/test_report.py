"""The command report: pages and plots from result files, and what cannot be drawn."""

from __future__ import annotations

import base64
import builtins
import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from specdec_cli.bench import results, tuned
from specdec_cli.bench.results import Cause, Difference, ModelFile, Results
from specdec_cli.bench.verdict import Thresholds, judge
from specdec_cli.cli.app import main
from tests.bench import made, tuned_files
from tests.bench.result_files import measured
from tests.bench.test_figures import whole
from tests.cli.command import environment

_VOID = {"meta", "br", "link", "input", "img", "hr"}
_LARGEST = 400_000  # characters of a page of a small file
_PNG = b"\x89PNG\r\n\x1a\n"


class Page(HTMLParser):
    """A page as it was written: every tag is closed in its turn, and everything that leads out of it is noted."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.heads: list[int] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _VOID:
            self.open.append(tag)
        self.tags.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.heads.append(int(tag[1]))
        for name, value in attrs:
            assert not name.startswith("on")
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src", "xlink:href"):
                self.links.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def _page(folder: Path, *files: Results, flags: tuple[str, ...] = ()) -> str:
    paths = []
    for i, each in enumerate(files):
        paths.append(folder / f"r{i}.json")
        results.write(paths[-1], each)
    out = folder / "report.html"
    assert main(["report", *map(str, paths), "-o", str(out), *flags]) == 0
    return out.read_text(encoding="utf-8")


def _judged() -> Results:
    found = replace(whole(), command="specdec bench demo --draft ngram")
    found = replace(found, differences=(Difference("a", "ngram", 3, Cause.ROUNDING, 0.1, 0.2),))
    return replace(found, verdict=judge(found, Thresholds(speedup=1.2)))


def test_a_page_says_everything_and_needs_nothing_beside_it(tmp_path: Path) -> None:
    found = _judged()
    text = _page(tmp_path, found)
    page = Page(text)
    assert found.verdict is not None
    assert found.verdict.sentence in page.text
    for said in ("a", "b", "target.gguf", "a" * 64, "Processor 2", "build 3", "--require-speedup", "draft_max",
                 "specdec bench demo --draft ngram", "rounding: passes", "made up"):  # fmt: skip
        assert said in page.text
    assert page.tags.count("svg") == 6
    assert page.tags.count("desc") == 6
    assert len(text) < _LARGEST
    assert "http" not in text
    assert len(page.ids) == len(set(page.ids))
    outward = [link for link in page.links if not link.startswith("#")]
    assert outward[0] == "r0.json"
    assert outward[1].startswith("data:application/json;base64,")
    assert all(link[1:] in page.ids for link in page.links if link.startswith("#"))
    assert all(b <= a + 1 for a, b in zip([0, *page.heads], page.heads, strict=False))


def test_the_copy_within_a_page_is_a_result_file_that_names_no_home(tmp_path: Path) -> None:
    home = ModelFile(str(Path.home() / "target.gguf"), 1000, "a" * 64)
    text = _page(tmp_path, replace(_judged(), models={"target": home}))
    data = re.findall(r"base64,([^\"]+)", text)[0]
    (tmp_path / "copy.json").write_bytes(base64.b64decode(data))
    again = results.load(tmp_path / "copy.json")
    assert again.runs == _judged().runs
    assert str(Path.home()) not in str(again.models)


def test_the_same_file_gives_the_same_page(tmp_path: Path) -> None:
    assert _page(tmp_path, _judged()) == _page(tmp_path, _judged())


def test_a_page_of_an_older_file_leaves_out_what_it_lacks_and_says_so(tmp_path: Path) -> None:
    page = Page(_page(tmp_path, made.results({"a": ([10], [20])})))
    assert page.tags.count("svg") == 4
    assert page.text.count("This file does not hold") == 2
    assert "The measurement was not finished" in page.text


def test_names_of_unknown_origin_stay_text(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>$\\frac{1$--><b>&amp;\x1b[31m" + "x" * 300
    found = replace(_judged(), label=evil, settings={evil: evil}, command=evil)
    tasks = tuple(replace(task, name=evil) if task.name == "a" else task for task in found.tasks)
    runs = tuple(replace(run, task=evil, variant="plain" if run.variant == "plain" else evil) if run.task == "a" else run
                 for run in found.runs)  # fmt: skip
    found = replace(found, tasks=tasks, runs=runs, variants=("plain", evil, "ngram"), differences=(), verdict=None)
    page = Page(_page(tmp_path, found))
    assert page.tags.count("script") == 1
    assert "b" not in page.tags
    assert "\x1b" not in page.text
    assert "<script>alert(1)</script>$\\frac{1$--><b>&amp;\\x1b[31m" in page.text


@pytest.mark.parametrize(
    "found",
    [
        replace(made.results({"a": ([], [])}), planned_bytes={}),
        made.results({"a": ([10], [])}),
        measured("theirs", {"server": 10.0}, levels=(1, 2)),
        measured("alone", {"plain": 10.0}, repeats=1),
        replace(made.results({"a": ([10], [20])}), runs=tuple(made.run("a", v, tokens=()) for v in ("plain", "ngram"))),
        made.results({f"task {i}": ([10], [1e-6]) for i in range(80)}),
    ],
)
def test_odd_files_give_a_page(tmp_path: Path, found: Results) -> None:
    assert Page(_page(tmp_path, found)).heads[0] == 1


def test_several_files_are_compared_and_stand_below_each_other(tmp_path: Path) -> None:
    page = Page(_page(tmp_path, measured("one", {"plain": 10.0}), measured("two", {"plain": 20.0})))
    assert "two is 2.00x (2.00 to 2.00) as fast as one over 2 tasks." in page.text
    assert page.heads[0] == 1
    assert page.heads.count(1) == 1


def test_unequal_work_is_refused_unless_forced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = replace(measured("other"), models={"target": ModelFile("/models/u.gguf", 1, "c" * 64)})
    for name, each in (("a", measured()), ("b", other)):
        results.write(tmp_path / f"{name}.json", each)
    words = ["report", str(tmp_path / "a.json"), str(tmp_path / "b.json"), "-o", str(tmp_path / "r.html")]
    assert main(words) == 2
    assert "The targets differ" in capsys.readouterr().err
    assert not (tmp_path / "r.html").exists()
    assert main([*words, "--force"]) == 0
    assert "Of unequal work: " in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_a_file_of_tune(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(json.dumps(tuned.document(tuned_files.found())), encoding="utf-8")
    assert main(["report", str(tmp_path / "t.json"), "-o", str(tmp_path / "r.html")]) == 0
    page = Page((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert page.tags.count("svg") == 2
    assert "Use ngram." in page.text
    assert "specdec run target.gguf --draft ngram" in page.text
    (tmp_path / "t.json").write_text('{"schema": "specdec.tune/1"}', encoding="utf-8")
    assert main(["report", str(tmp_path / "t.json"), "-o", str(tmp_path / "r.html")]) == 2


@pytest.mark.parametrize("plot", ["speedup", "acceptance", "cost", "latency", "time", "memory"])
def test_single_plots(tmp_path: Path, plot: str) -> None:
    results.write(tmp_path / "r.json", _judged())
    for name in ("a.png", "a.svg"):
        assert main(["report", str(tmp_path / "r.json"), "-o", str(tmp_path / name), "--plot", plot]) == 0
    assert (tmp_path / "a.png").read_bytes().startswith(_PNG)
    drawn = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert drawn.startswith("<?xml")
    assert "<dc:date>" not in drawn


def test_only_what_a_report_wrote_is_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results.write(tmp_path / "r.json", _judged())
    for name in ("a.html", "a.png", "a.svg"):
        out = tmp_path / name
        words = ["report", str(tmp_path / "r.json"), "-o", str(out)]
        out.write_text("mine", encoding="utf-8")
        assert main(words) == 2
        assert "is no report" in capsys.readouterr().err
        assert out.read_text(encoding="utf-8") == "mine"
        assert main([*words, "--overwrite"]) == 0
        assert main(words) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "There is nothing to draw."),
        (["r.json"], "There is no file to write."),
        (["r.json", "-o", "r.pdf"], "-o takes .html, .png or .svg."),
        (["r.json", "r.json", "-o", "r.html"], "named twice"),
        (["none.json", "-o", "r.html"], "none.json cannot be read"),
        (["text.json", "-o", "r.html"], "It has no schema"),
        (["nan.json", "-o", "r.html"], "NaN is no number"),
        (["r.json", "-o", "r.html", "--plot", "cost"], "has no meaning for a page"),
        (["r.json", "-o", "r.png", "--plot", "cost"], "It has these plots: speedup, latency, time, memory."),
        (["r.json", "-o", "nowhere/r.html"], "cannot be written"),
        (["r.svg", "-o", "r.svg"], "would be written over"),
    ],
)
def test_what_cannot_be_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    results.write(Path("r.json"), made.results({"a": ([10], [20])}))
    Path("text.json").write_text("{}", encoding="utf-8")
    Path("nan.json").write_text("[NaN]", encoding="utf-8")
    assert main(["report", *words]) == 2
    shown = capsys.readouterr()
    assert (shown.out, "Traceback" in shown.err) == ("", False)
    assert said in shown.err


def test_without_matplotlib_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    really = builtins.__import__

    def without(name: str, *arguments: Any, **named: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError("No module named 'matplotlib'")
        return really(name, *arguments, **named)

    results.write(tmp_path / "r.json", _judged())
    monkeypatch.setattr(builtins, "__import__", without)
    assert main(["report", str(tmp_path / "r.json"), "-o", str(tmp_path / "r.html")]) == 2
    assert "pip install 'specdec-cli[report]'" in capsys.readouterr().err


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from specdec_cli.cli.app import main; main(['report', '--help']);"
        "sys.exit(bool({'numpy', 'rich', 'llama_cpp', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment(), check=False)
    assert done.returncode == 0
