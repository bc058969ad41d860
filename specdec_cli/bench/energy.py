"""Energy where the system counts it: RAPL of the processor, and the power that nvidia-smi tells of the GPUs."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Protocol, Self

POWERCAP = Path("/sys/class/powercap")

_SAMPLE_MS = 200


class Meter(Protocol):
    """Counts joules."""

    def read(self) -> float | None:
        """Joules so far, from any beginning; None where they are not known."""

    def close(self) -> None: ...


@dataclass(slots=True)
class _Domain:
    """One counter of RAPL. It starts again from zero at its range."""

    file: Path
    n_range: int  # microjoules
    last: int
    total: int = 0

    def read(self) -> int:
        now = _number(self.file)
        self.total += now - self.last if now >= self.last else now + self.n_range - self.last
        self.last = now
        return self.total


class Rapl:
    """The processor's packages and the memory beside them. Has to be read more often than a counter wraps: within minutes."""

    def __init__(self, root: Path = POWERCAP) -> None:
        self._domains = list(_domains(root))

    def read(self) -> float | None:
        try:
            return sum(domain.read() for domain in self._domains) / 1e6 if self._domains else None
        except (OSError, ValueError):
            self._domains = []
            return None

    def close(self) -> None: ...


def _domains(root: Path) -> Iterator[_Domain]:
    """Packages, and the memory inside them; cores are part of a package. Mostly only root may read them."""
    for folder in sorted(root.glob("intel-rapl:*")):
        try:
            name = (folder / "name").read_text(encoding="ascii").strip()
            if name.startswith("package") or name == "dram":
                file = folder / "energy_uj"
                yield _Domain(file, _number(folder / "max_energy_range_uj"), _number(file))
        except (OSError, ValueError):
            continue


def _number(file: Path) -> int:
    return int(file.read_text(encoding="ascii"))


class NvidiaPower:
    """The sum of what all GPUs draw, added up over time by a thread that reads one long-lived nvidia-smi."""

    def __init__(self, program: str | None = None) -> None:
        self._joules: float | None = None
        self._process: subprocess.Popen[str] | None = None
        program = program or shutil.which("nvidia-smi")
        if program is None:
            return
        query = [program, "--query-gpu=index,power.draw", "--format=csv,noheader,nounits", "-lms", str(_SAMPLE_MS)]
        try:
            self._process = subprocess.Popen(
                query, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8",
                errors="replace",
            )  # fmt: skip
        except OSError:
            return
        self._thread = threading.Thread(target=self._watch, args=(self._process,), daemon=True)
        self._thread.start()

    def read(self) -> float | None:
        return self._joules

    def close(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._thread.join()
            self._process = None

    def _watch(self, process: subprocess.Popen[str]) -> None:
        watts: dict[str, float] = {}
        last_s = monotonic()
        for line in process.stdout or ():
            index, _, power = line.partition(",")
            try:
                watts[index.strip()] = float(power)
            except ValueError:  # [N/A]
                continue
            now_s = monotonic()
            self._joules = (self._joules or 0.0) + (now_s - last_s) * sum(watts.values())
            last_s = now_s


class Energy:
    """All meters of this machine together. A context manager."""

    def __init__(self, meters: list[Meter]) -> None:
        self._meters = meters

    def read(self) -> float | None:
        """Joules so far, of those that know; None where none does."""
        known = [joules for meter in self._meters if (joules := meter.read()) is not None]
        return sum(known) if known else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        for meter in self._meters:
            meter.close()


def meters(*, gpu: bool) -> list[Meter]:
    """Those of this machine. gpu: whether a GPU takes part."""
    return [Rapl(), NvidiaPower()] if gpu else [Rapl()]
