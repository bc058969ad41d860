"""What a result file says of the machine."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from specdec_cli.bench.machine import busy, peak_memory, processor, this_machine


def test_this_machine_has_memory_and_cores() -> None:
    found = this_machine()
    assert found.os
    assert found.cores
    assert (found.memory or 0) > 1 << 28
    assert 1 << 20 < (peak_memory() or 0) < (found.memory or 0)


@pytest.mark.skipif(sys.platform != "linux", reason="that file is Linux's")
def test_the_name_of_the_processor_is_the_first_ones(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor : 0\nmodel name\t: Good CPU: fast\n\nmodel name : Other\n", encoding="utf-8")
    assert processor(tmp_path / "cpuinfo") == "Good CPU: fast"
    assert processor(tmp_path / "none")


def test_a_machine_with_other_work_is_told() -> None:
    machine = replace(this_machine(), cores=8, load=0.4)
    assert busy(machine) is None
    assert "load 3.5 on 8 cores" in (busy(replace(machine, load=3.5)) or "")
    assert busy(replace(machine, load=None)) is None
