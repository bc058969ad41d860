"""What a result file says of the machine, and how much memory this process has taken."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import psutil

from specdec_cli.bench.results import Machine

_WAIT_S = 5.0


def this_machine() -> Machine:
    """The machine, and how busy it is now."""
    return Machine(
        os=platform.platform(terse=True),
        cpu=processor(),
        cores=psutil.cpu_count(logical=False) or psutil.cpu_count(),
        memory=psutil.virtual_memory().total,
        load=round(psutil.getloadavg()[0], 2),
    )


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str | None:
    """The processor's name, as the system tells it."""
    if sys.platform == "darwin":
        return _output("sysctl", "-n", "machdep.cpu.brand_string")
    if sys.platform == "win32":
        return platform.processor() or os.environ.get("PROCESSOR_IDENTIFIER")
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    found = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in reversed(lines))}
    return found.get("model name") or found.get("Hardware") or platform.machine() or None


def busy(machine: Machine) -> str | None:
    """A sentence about a machine that has other work; None where it is idle enough."""
    if machine.load is None or not machine.cores or machine.load < max(0.5, 0.25 * machine.cores):
        return None
    return (
        f"The machine is busy with other work (load {machine.load:.1f} on {machine.cores} cores):"
        " the ratios stay fair, for runs alternate, but they spread more."
    )


def peak_memory() -> int | None:
    """The largest resident size of this process so far, in bytes."""
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _output(*command: str) -> str | None:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_WAIT_S, check=True, encoding="utf-8"
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
