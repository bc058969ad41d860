"""What tune would find, without tuning."""

from __future__ import annotations

from specdec_cli.bench.curve import Cost
from specdec_cli.bench.elsewhere import Command
from specdec_cli.bench.results import Machine, Ratio, Spread
from specdec_cli.bench.tuned import LeftOut, Model, Standing, Tuned, Verdict


def found() -> Tuned:
    return Tuned(
        created="2030-01-01T00:00:00+00:00",
        machine=Machine("System 1", "Processor 2", 4, 16_000_000_000, 0.1),
        build="build 3",
        target=Model("target.gguf", "/models/target.gguf", 1000),
        drafts=(Model("draft.gguf", "/models/draft.gguf", 100, 0.001),),
        tasks=("a",),
        temperature=0.0,
        budget_s=60.0,
        used_s=59.0,
        complete=True,
        curve=(Cost(1, 0.01, 0.009, 0.011, 5), Cost(2, 0.012, 0.01, 0.02, 5)),
        candidates=(
            Standing("plain", "none", None, None, 3, Spread(10.0, 9.0, 11.0)),
            Standing("ngram", "ngram", 16, None, 3, Spread(15.0, 14.0, 16.0), Ratio(1.5, 1.4, 1.6), draft_length=3.2),
        ),
        left_out=(LeftOut("model", "It does not fit."),),
        verdict=Verdict("Use ngram.", "ngram", Ratio(1.5, 1.4, 1.6)),
        commands=(Command("specdec", "specdec run target.gguf --draft ngram"),),
    )
