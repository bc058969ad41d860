"""Everything that headers can tell before any weights are read: kinds of file, the pair, the memory. Decides what may load."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from specdec_cli import drafters, exact, room
from specdec_cli.errors import ModelFileError, PairError, SpecdecError
from specdec_cli.gguf.constants import Role
from specdec_cli.gguf.header import Header
from specdec_cli.gguf.kinds import check_runnable
from specdec_cli.gguf.reader import read_header
from specdec_cli.llama.model import read_override
from specdec_cli.llama.options import AS_MANY_AS_FIT, ModelOptions
from specdec_cli.options import Listener, SessionOptions
from specdec_cli.pairing.compat import Compatibility
from specdec_cli.pairing.findings import Rule, Verdict
from specdec_cli.pairing.judge import judge, require
from specdec_cli.pairing.llama_build import installed
from specdec_cli.pairing.memory import require_room
from specdec_cli.pairing.planned import Machine, Plan


@dataclass(frozen=True, slots=True)
class Admitted:
    """What may be loaded."""

    plan: Plan
    pair: Compatibility | None  # None: no draft model

    def placed(self, options: ModelOptions, role: Role) -> ModelOptions:
        """How a model is to be loaded, now that it is known how many of its layers fit on the GPUs.

        llama.cpp itself takes "as many as fit" for all of them.
        """
        planned = self.plan.target if role == "target" else self.plan.draft
        if options.n_gpu_layers != AS_MANY_AS_FIT or planned is None:
            return options
        return dataclasses.replace(options, n_gpu_layers=planned.n_gpu_layers)


def admit(options: SessionOptions, listener: Listener, machine: Machine | None = None) -> Admitted:
    """Pass what can run, with what a person should know about it. Raises SpecdecError.

    machine: what there is to fit into; this machine as it is now, if not given.
    """
    header = _header(options.target, "target")
    if options.draft is None:
        return Admitted(_planned(options, listener, machine, header), None)
    try:
        draft = _header(options.draft, "draft")
        report = judge(header, draft, installed())
        require(report, options.force)
        plan = _planned(options, listener, machine, header, draft)
    except (ModelFileError, PairError) as error:
        without_draft(error, options, listener)
        return Admitted(_planned(options, listener, machine, header), None)
    for found in report.findings:
        if found.severity > Verdict.COMPATIBLE and found.rule is not Rule.TARGET_CACHE:  # the session says that itself
            listener.notice(f"{found.sentence} {found.why}")
    return Admitted(plan, report.compatibility)


def without_draft(error: SpecdecError, options: SessionOptions, listener: Listener) -> None:
    """Go on without a draft where that was allowed, saying so."""
    if not options.draft_optional:
        raise error
    listener.notice(f"Decoding plainly: {error.what} {error.why}".strip())


def n_rows(options: SessionOptions, *, drafting: bool) -> int:
    """Rows of logits that a pass of the target may ask for."""
    n_max = options.n_max if drafting or options.changeable else 0
    return exact.n_widths(n_max, options.context) if options.exact else n_max + 1


def _header(options: ModelOptions, role: Role) -> Header:
    """The header of a model that can run, as llama.cpp will read it. Raises ModelFileError."""
    header = read_header(options.path, role)
    header = dataclasses.replace(header, metadata={**header.metadata, **dict(map(read_override, options.override_kv))})
    check_runnable(header, role)
    return header


def _planned(
    options: SessionOptions, listener: Listener, machine: Machine | None, header: Header, draft: Header | None = None
) -> Plan:
    """The memory plan, if all of it fits. Raises ModelFileError."""
    plan = room.plan_for(
        header,
        options.target,
        options.context,
        draft,
        options.draft if draft is not None else None,
        options.draft_context,
        n_rows(options, drafting=draft is not None or drafters.NGRAM in options.drafters),
        exact=options.exact,
        machine=machine,
    )
    require_room(plan)
    if plan.rereads:
        listener.notice(plan.sentences[0])
    return plan
