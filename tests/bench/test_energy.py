"""Energy is counted over wraps, and is unknown rather than wrong where the system does not tell it."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from specdec_cli.bench.energy import Energy, NvidiaPower, Rapl, meters


def _domain(root: Path, folder: str, name: str, microjoules: int, n_range: int = 1_000_000) -> Path:
    where = root / folder
    where.mkdir()
    (where / "name").write_text(f"{name}\n", encoding="ascii")
    (where / "max_energy_range_uj").write_text(f"{n_range}\n", encoding="ascii")
    (where / "energy_uj").write_text(f"{microjoules}\n", encoding="ascii")
    return where / "energy_uj"


def test_packages_and_memory_are_summed_and_cores_are_part_of_a_package(tmp_path: Path) -> None:
    package = _domain(tmp_path, "intel-rapl:0", "package-0", 500_000)
    cores = _domain(tmp_path, "intel-rapl:0:0", "core", 100)
    memory = _domain(tmp_path, "intel-rapl:0:1", "dram", 0)
    rapl = Rapl(tmp_path)
    assert rapl.read() == 0.0
    package.write_text("700000", encoding="ascii")
    cores.write_text("90000", encoding="ascii")
    memory.write_text("50000", encoding="ascii")
    assert rapl.read() == pytest.approx(0.25)


def test_a_counter_that_starts_again_goes_on(tmp_path: Path) -> None:
    file = _domain(tmp_path, "intel-rapl:0", "package-0", 900_000)
    rapl = Rapl(tmp_path)
    file.write_text("100000", encoding="ascii")
    assert rapl.read() == pytest.approx(0.2)
    file.write_text("50000", encoding="ascii")
    assert rapl.read() == pytest.approx(1.15)


def test_counters_that_are_not_there_or_break_are_not_known(tmp_path: Path) -> None:
    assert Rapl(tmp_path / "none").read() is None
    file = _domain(tmp_path, "intel-rapl:0", "package-0", 1)
    (tmp_path / "intel-rapl:1").mkdir()
    rapl = Rapl(tmp_path)
    assert rapl.read() == 0.0
    file.unlink()
    assert rapl.read() is None
    assert rapl.read() is None


@pytest.mark.skipif(os.name == "nt", reason="a script is no program there")
def test_the_power_of_all_gpus_is_added_up_over_time(tmp_path: Path) -> None:
    program = tmp_path / "nvidia-smi"
    lines = "0, 100.0\n1, [N/A]\n1, 50.0\n"
    program.write_text(
        f"#!{sys.executable}\nimport sys, time\n"
        f"while True:\n    sys.stdout.write({lines!r}); sys.stdout.flush(); time.sleep(0.02)\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    power = NvidiaPower(str(program))
    until = time.monotonic() + 30
    while (power.read() or 0) < 3 and time.monotonic() < until:
        time.sleep(0.02)
    assert (power.read() or 0) >= 3
    power.close()
    power.close()


def test_without_a_meter_nothing_is_known(tmp_path: Path) -> None:
    with Energy([Rapl(tmp_path)]) as energy:
        assert energy.read() is None
    assert len(meters(gpu=False)) == 1
    missing = NvidiaPower(str(tmp_path / "none"))
    assert missing.read() is None
    missing.close()
