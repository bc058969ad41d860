"""The memory plan as people see it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from specdec_cli.pairing.buffers import ContextSize
from specdec_cli.pairing.memory import plan
from specdec_cli.pairing.planned import Asked, Gpu, Plan, to_json
from specdec_cli.ui.planned import planned_table
from specdec_cli.units import size
from tests.pairing.plans import MB, big_header, machine

ASKED = Asked(ContextSize(4096))


def pair(free_mb: int, *gpus_mb: int) -> Plan:
    return plan(big_header(), ASKED, machine(free_mb, *gpus_mb), big_header("draft.gguf", 1, 20), ASKED)


def test_the_table_has_each_part_of_each_model_and_their_total() -> None:
    rows = [re.split(r"\s{2,}", line) for line in planned_table(pair(2000)).splitlines()]
    assert rows[0] == ["memory", "target", "draft", "total"]
    assert ["weights, mapped", "500 MB", "120 MB", "620 MB"] in rows
    assert ["cache", "67.1 MB", "16.8 MB", "83.9 MB"] in rows
    assert rows[-1] == ["free", "2.00 GB"]
    assert not any(row[0] == "weights, repacked" for row in rows)


def test_a_gpu_in_use_has_a_table_of_its_own() -> None:
    table = planned_table(pair(2000, 9000))
    assert re.search(r"^CUDA0 +target +draft +total$", table, re.MULTILINE)
    assert "weights, loaded" in table
    assert "CUDA0" not in planned_table(pair(2000, 10))


def test_a_gpu_in_the_hosts_memory_counts_in_both_tables() -> None:
    shared = replace(machine(2000), gpus=(Gpu("MTL0", 9000 * MB, shared=True),))
    found = plan(big_header(), ASKED, shared)
    rows = [re.split(r"\s{2,}", line) for line in planned_table(found).splitlines()]
    mine = size(found.target.on["MTL0"].total)
    assert ["for MTL0", mine, mine] in rows
    assert ["needed", size(found.target.n_host), size(found.n_needed)] in rows


def test_text_is_plain_without_colour_and_fits_a_narrow_terminal() -> None:
    table = planned_table(pair(2000, 9000), columns=40)
    assert "\x1b" not in table
    assert max(map(len, table.splitlines())) <= 40
    assert "\x1b" in planned_table(pair(2000), colour=True)


def test_every_key_of_the_document_is_described() -> None:
    page = (Path(__file__).parents[2] / "docs" / "json" / "memory.md").read_text(encoding="utf-8")

    def keys(value: object) -> set[str]:
        if isinstance(value, dict):
            return set(value).union(*(keys(inner) for inner in value.values()))
        return set().union(*map(keys, value)) if isinstance(value, list) else set()

    found = keys(to_json(pair(2000, 9000)))
    assert "largest_context" in found
    assert {key for key in found if f"`{key}`" not in page} == set()
