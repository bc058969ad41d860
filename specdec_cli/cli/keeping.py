"""What tune leaves behind: a profile's settings, and the lines to copy, for specdec and for servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from specdec_cli import __version__, drafters
from specdec_cli.bench.elsewhere import Command, Served, commands, shell
from specdec_cli.bench.tuned import Standing, Tuned
from specdec_cli.bench.verdict import shown
from specdec_cli.gguf.reader import read_header
from specdec_cli.settings.kinds import Several
from specdec_cli.settings.resolve import Settings, Source
from specdec_cli.settings.table import RUN, SETTINGS, Setting
from specdec_cli.units import size

# What tune decides by itself, what belongs to one call, and how a model was found.
_NOT_KEPT = frozenset({
    "model", "draft", "hf_repo", "hf_repo_draft", "draft_max", "draft_fixed", "draft_min", "draft_p_min", "draft_optional",
    "offline", "profile", "predict", "seed", "raw", "shadow", "show_draft", "live", "system_prompt", "stop", "ignore_eos",
    "grammar", "grammar_file", "json_schema", "json_schema_file",
})  # fmt: skip


def kept(settings: Settings, best: Standing) -> dict[str, object]:
    """The settings of the profile, by key: the model, the drafter and how far it drafts, and what else was given."""
    found: dict[str, object] = {"model": lasting(settings.value("model", str))}
    found["draft"] = ",".join(map(lasting, best.draft.split(",")))
    if best.draft_fixed is not None:
        found["draft-fixed"] = best.draft_fixed
    elif best.draft_max is not None:
        found["draft-max"] = best.draft_max
    return found | {setting.key: worded(setting, value) for setting, value in _given(settings)}


def comments(tuned: Tuned) -> list[str]:
    """What was measured, for whoever reads the profile."""
    machine = tuned.machine
    parts = [machine.cpu, f"{machine.cores} cores" if machine.cores else None]
    parts += [size(machine.memory) if machine.memory else None, machine.os, tuned.build]
    lines = [
        f"Written by specdec tune {__version__}, {tuned.created}.",
        f"Machine: {', '.join(part for part in parts if part)}",
        f"Target: {tuned.target.name}, {size(tuned.target.bytes)}",
        f"Work: {', '.join(tuned.tasks)}; temperature {tuned.temperature:g}; {tuned.used_s:.0f} s",
    ]
    for each in tuned.candidates:
        if each.tokens_per_s is not None:
            ratio = f", {shown(each.ratio)} plain decoding" if each.ratio is not None else ""
            lines.append(f"{each.name}: {each.tokens_per_s.median:.1f} tokens/s{ratio}")
    return [*lines, tuned.verdict.sentence]


def lines(
    settings: Settings, best: Standing, target: Path, draft: Path | None, n_ctx: int, n_threads: int
) -> tuple[Command, ...]:
    """The lines to copy. target and draft: the files; n_ctx and n_threads: as they are in the session."""
    words = ["specdec", "run", settings.value("model", str), "--draft", best.draft]
    if best.draft_fixed is not None:
        words += ["--draft-fixed", str(best.draft_fixed)]
    elif best.draft_max is not None:
        words += ["--draft-max", str(best.draft_max)]
    devices = []
    for setting, value in _given(settings):
        given = flags(setting, value)
        words += given
        of_llama = setting.fills.startswith(("model.", "context.")) and setting.name not in ("ctx_size", "threads")
        if of_llama and (draft is not None or not setting.draft):
            devices += given
    served = Served(
        target=read_header(target, "target"),
        draft=read_header(draft, "draft") if draft is not None else None,
        ngram=drafters.NGRAM in best.draft.split(","),
        n_draft=best.draft_fixed or max(round(best.draft_length or 1), 1),
        averaged=best.draft_fixed is None,
        n_ctx=n_ctx,
        n_threads=n_threads,
        flags=devices,
    )
    return Command("specdec", shell(words)), *commands(served)


def _given(settings: Settings) -> Iterator[tuple[Setting, object]]:
    """What somebody decided, and what another run needs to be like those that were measured."""
    for name in RUN:
        setting, decided = SETTINGS[name], settings.decided[name]
        if name not in _NOT_KEPT and setting.profile and decided.source >= Source.PROFILE:
            yield setting, decided.value


def worded(setting: Setting, value: object) -> object:
    """As a profile has it: a list where the flag may be given several times."""
    if setting.repeats and isinstance(value, tuple):
        return [setting.shown((each,)) for each in value]
    return value if isinstance(value, int) and setting.shown(value) == str(value) else setting.shown(value)


def flags(setting: Setting, value: object) -> list[str]:
    """A setting as words of a command line."""
    if not setting.takes_value:
        return [setting.flag if value else f"--no-{setting.flag[2:]}"]
    if isinstance(setting.kind, Several) and setting.repeats and isinstance(value, tuple):
        return [word for each in value for word in (setting.flag, setting.shown((each,)))]
    return [setting.flag, setting.shown(value)]


def lasting(reference: str) -> str:
    """A reference that means the same from another folder."""
    path = Path(reference).expanduser()
    return str(path.absolute()) if path.is_file() else reference
