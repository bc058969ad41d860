"""Pairs of every grade: the text is the plain one, and no id is drafted that may not be, however the two differ."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import gguf
import numpy as np
import pytest

from specdec_cli import drafters
from specdec_cli.decoding.contracts import SamplingParams
from specdec_cli.errors import PairError
from specdec_cli.gguf.constants import TokenType
from specdec_cli.gguf.reader import read_header
from specdec_cli.pairing.findings import Rule, Verdict
from specdec_cli.pairing.judge import judge, require
from tests.gguf_files import copy_with_changes
from tests.test_session import GREEDY, STORY, Result, opened, options, run

pytestmark = pytest.mark.model

N = 49_152  # tokens of SmolLM2
SAMPLED = SamplingParams(temperature=0.8, top_k=40, seed=5)
RUNS = ((GREEDY, 20), (SAMPLED, 10))
TOKENIZER = "tokenizer.ggml."
TEMPLATE = "tokenizer.chat_template"

NORMAL, CONTROL, ADDED, UNUSED = TokenType.NORMAL, TokenType.CONTROL, TokenType.USER_DEFINED, TokenType.UNUSED
Token = tuple[str, TokenType]


@dataclass(frozen=True)
class Copy:
    """What a copy of SmolLM2 has otherwise."""

    tokens: Mapping[str, Token] = field(default_factory=dict)  # spelling -> what takes its place
    more: tuple[Token, ...] = ()  # behind the last token
    keys: Mapping[str, object] = field(default_factory=dict)  # None removes one
    reversed_merges: bool = False


@dataclass(frozen=True)
class Pair:
    """Two copies, and what is to be said of them beside the cost: a whole copy of the target is no cheap draft."""

    target: Copy
    draft: Copy
    grade: Verdict
    rules: frozenset[Rule]
    never: frozenset[str]  # tokens of both, by SmolLM2's spelling, that are not drafted
    missed: str | None  # one of these that the text has, where there is one: there the draft is wrong


def pair(grade: Verdict, *rules: Rule, target: Copy | None = None, draft: Copy | None = None, never: str = "") -> Pair:
    """never: spellings with blanks between; where the first one is a word, the text has it."""
    words = never.split()
    missed = words[0] if words and not words[0].startswith("<") else None
    return Pair(target or Copy(), draft or Copy(), grade, frozenset(rules), frozenset(words), missed)


def keys(**values: object) -> Copy:
    return Copy(keys={f"{TOKENIZER}{name}": value for name, value in values.items()})


def grown(n: int, spelling: str, kind: TokenType) -> Copy:
    return Copy(more=tuple((spelling.format(N + i), kind) for i in range(n)))


def padded(n: int) -> Copy:
    return grown(n, "[PAD{}]", UNUSED)


SAME, NOTES, PARTIAL, INCOMPATIBLE = Verdict.COMPATIBLE, Verdict.NOTES, Verdict.PARTIAL, Verdict.INCOMPATIBLE
R = Rule
RENAMED = Copy({"<file_sep>": ("<|file|>", CONTROL), "<|im_end|>": ("<|stop|>", CONTROL)})
FIRST = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>", "<reponame>")
FIRST_RENAMED = Copy({name: (f"<first_{i}>", CONTROL) for i, name in enumerate(FIRST)})
TOOL, OTHER_TOOL = Copy({"Ġof": ("<tool>", ADDED)}), Copy({"Ġof": ("<think>", ADDED)})
LETTER, OTHER_LETTER = Copy({"<repo_name>": ("first text", NORMAL)}), Copy({"<repo_name>": ("other text", NORMAL)})
SWAPPED = Copy({"Ġof": ("Ġand", NORMAL), "Ġand": ("Ġof", NORMAL)})
PLACEHOLDER = Copy({"Ġof": ("[PAD7]", UNUSED)})
WORDS, MARKS = grown(3, "Ġnovel{}", NORMAL), grown(2, "<|mark_{}|>", CONTROL)
STARTED = keys(bos_token_id=0, add_bos_token=True)
SCORES, OTHER_SCORES = keys(scores=[0.5] * N), keys(scores=[1.5] * N)

PAIRS = {
    "draft padded by 1": pair(SAME, R.PADDING, draft=padded(1)),
    "draft padded by 128": pair(SAME, R.PADDING, draft=padded(128)),
    "draft padded by 129": pair(SAME, R.PADDING, draft=padded(129)),
    "target padded by 128": pair(SAME, R.PADDING, target=padded(128)),
    "words more in the draft": pair(PARTIAL, R.EXTRA_TEXT, draft=WORDS),
    "words more in the target": pair(PARTIAL, R.EXTRA_TEXT, target=WORDS),
    "control tokens more in the draft": pair(NOTES, R.EXTRA_CONTROL, draft=MARKS),
    "control tokens more in the target": pair(NOTES, R.EXTRA_CONTROL, target=MARKS),
    "control tokens renamed in the draft": pair(NOTES, R.CONTROL, draft=RENAMED, never="<file_sep> <|im_end|>"),
    "control tokens renamed in the target": pair(NOTES, R.CONTROL, target=RENAMED, never="<file_sep> <|im_end|>"),
    "first five renamed in the draft": pair(NOTES, R.CONTROL, R.ENDS, draft=FIRST_RENAMED, never=" ".join(FIRST)),
    "first five renamed in the target": pair(NOTES, R.CONTROL, R.ENDS, target=FIRST_RENAMED, never=" ".join(FIRST)),
    "other text among the first five": pair(PARTIAL, R.TEXT, target=LETTER, draft=OTHER_LETTER, never="<repo_name>"),
    "a word user-defined in the draft": pair(PARTIAL, R.READING, draft=Copy({"Ġof": ("Ġof", ADDED)}), never="Ġof"),
    "a word user-defined in the target": pair(PARTIAL, R.READING, target=Copy({"Ġof": ("Ġof", ADDED)}), never="Ġof"),
    "a comma user-defined in the draft": pair(SAME, draft=Copy({",": (",", ADDED)})),
    "another added token": pair(PARTIAL, R.ADDED, target=TOOL, draft=OTHER_TOOL, never="Ġof"),
    "another added token, turned round": pair(PARTIAL, R.ADDED, target=OTHER_TOOL, draft=TOOL, never="Ġof"),
    "a word that is padding in the draft": pair(PARTIAL, R.UNUSED, draft=PLACEHOLDER, never="Ġof"),
    "a word that is padding in the target": pair(PARTIAL, R.UNUSED, target=PLACEHOLDER, never="Ġof"),
    "the draft ends elsewhere": pair(SAME, R.EOS, R.ENDS, draft=keys(eos_token_id=5)),
    "the target ends at a full stop": pair(SAME, R.EOS, R.ENDS, target=keys(eos_token_id=30)),
    "the draft begins elsewhere": pair(SAME, R.BOS, R.ADD_BOS, draft=STARTED),
    "the target begins elsewhere": pair(SAME, R.BOS, R.ADD_BOS, target=STARTED),
    "another pre-tokenizer in the draft": pair(NOTES, R.PRE, draft=keys(pre="gpt-2")),
    "merges turned round in the draft": pair(SAME, R.MERGES, draft=Copy(reversed_merges=True)),
    "other scores": pair(SAME, R.SCORES, target=SCORES, draft=OTHER_SCORES),
    "no template in the draft": pair(SAME, R.TEMPLATE, draft=Copy(keys={TEMPLATE: None})),
    "another template in the draft": pair(SAME, R.TEMPLATE, draft=Copy(keys={TEMPLATE: "{{ messages[0].content }}"})),
    "a draft trained for less": pair(NOTES, R.CONTEXT, draft=Copy(keys={"llama.context_length": 512})),
    "a target trained for less": pair(SAME, target=Copy(keys={"llama.context_length": 512})),
    "swapped words in the draft": pair(INCOMPATIBLE, R.TEXT, draft=SWAPPED, never="Ġof Ġand"),
    "swapped words in the target": pair(INCOMPATIBLE, R.TEXT, target=SWAPPED, never="Ġof Ġand"),
}


@pytest.fixture(scope="module", autouse=True)
def _read_once() -> Iterator[None]:
    """The package gguf takes seconds to read a vocabulary; all copies are of one model."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gguf, "GGUFReader", functools.cache(gguf.GGUFReader))
        yield


@pytest.fixture(scope="module")
def spellings(smollm2: Path) -> tuple[str, ...]:
    return tuple(gguf.GGUFReader(smollm2).fields[f"{TOKENIZER}tokens"].contents())


@pytest.fixture(scope="module")
def plain(smollm2: Path) -> tuple[Result, ...]:
    """What SmolLM2 itself writes without a draft."""
    return results(smollm2, None)


def results(target: Path, draft: Path | None, force: bool = False) -> tuple[Result, ...]:
    drafter = drafters.NONE if draft is None else drafters.MODEL
    with opened(options(target, drafter, draft, n_max=4, n_ctx=256, force=force)) as session:
        return tuple(run(session, STORY, n, params) for params, n in RUNS)


def write(source: Path, path: Path, copy: Copy, spellings: tuple[str, ...]) -> Path:
    """Write a copy. Tokens that are new have the embedding of ' the', a little longer: a model prefers them to it."""
    reader = gguf.GGUFReader(source)
    fields = reader.fields
    types = list(fields[f"{TOKENIZER}token_type"].contents())
    words = list(spellings)
    for spelling, (text, kind) in copy.tokens.items():
        i = spellings.index(spelling)
        words[i], types[i] = text, int(kind)
    changes = {
        f"{TOKENIZER}tokens": [*words, *(text for text, _ in copy.more)],
        f"{TOKENIZER}token_type": [*types, *(int(kind) for _, kind in copy.more)],
        "llama.vocab_size": N + len(copy.more),
        **copy.keys,
    }
    if copy.reversed_merges:
        changes[f"{TOKENIZER}merges"] = list(reversed(fields[f"{TOKENIZER}merges"].contents()))
    embedding = next(tensor.data for tensor in reader.tensors if tensor.name == "token_embd.weight")
    likely = embedding[spellings.index("Ġthe")].copy()
    likely.view(np.float16)[::17] *= np.float16(1.1)  # Q8_0: a scale, and 32 numbers of one byte
    rows = np.concatenate([embedding, np.tile(likely, (len(copy.more), 1))])
    return copy_with_changes(source, path, changes, {"token_embd.weight": rows})


@pytest.mark.parametrize("name", PAIRS)
def test_the_text_is_the_plain_one(
    name: str, smollm2: Path, spellings: tuple[str, ...], plain: tuple[Result, ...], tmp_path: Path
) -> None:
    chosen = PAIRS[name]
    paths = dict.fromkeys(("target", "draft"), smollm2)
    for role, copy in (("target", chosen.target), ("draft", chosen.draft)):
        if copy != Copy():
            paths[role] = write(smollm2, tmp_path / f"{role}.gguf", copy, spellings)
    try:
        report = judge(read_header(paths["target"]), read_header(paths["draft"]))
        assert max((found.severity for found in report.findings if found.rule is not R.SIZE), default=SAME) == chosen.grade
        assert {found.rule for found in report.findings} - {R.SIZE} == chosen.rules
        assert report.compatibility is not None
        forbidden = report.compatibility.forbidden(N + len(chosen.draft.more))
        assert {spellings[i] for i in np.flatnonzero(forbidden[:N])} == chosen.never
        refused = chosen.grade is INCOMPATIBLE
        if refused:
            with pytest.raises(PairError):
                require(report)
        expected = plain if chosen.target == Copy() else results(paths["target"], None)
        for alone, drafted in zip(expected, results(paths["target"], paths["draft"], force=refused), strict=True):
            assert drafted.tokens == alone.tokens
            assert (drafted.text, drafted.finish) == (alone.text, alone.finish)
            proposed = [token for done in drafted.rounds for token in done.proposal.tokens]
            assert not forbidden[proposed].any()
            assert sum(done.n_accepted for done in drafted.rounds) > 0
        if chosen.missed is not None:
            assert spellings.index(chosen.missed) in expected[0].tokens
        if chosen.target.more:
            assert max(expected[0].tokens) >= N
    finally:
        for path in tmp_path.glob("*.gguf"):
            path.unlink()
