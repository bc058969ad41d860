"""What doctor does: gather what there is to know about this machine and build. No secret and no home folder gets in."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from specdec_cli import __version__, cache
from specdec_cli.cli import answering, hardware
from specdec_cli.cli.options import Given
from specdec_cli.cli.warning import warnings_of
from specdec_cli.errors import EXIT_COULD_NOT_START, EXIT_DONE, UsageError
from specdec_cli.hub.secrecy import scrub
from specdec_cli.hub.state import hub_state
from specdec_cli.settings import profiles
from specdec_cli.settings.resolve import Settings, resolve
from specdec_cli.ui.doctored import render_doctored
from specdec_cli.ui.units import from_home

Json = dict[str, Any]

_PACKAGES = ("llama-cpp-python", "numpy", "huggingface-hub", "typer", "rich", "psutil")
_PREFIXES = ("SPECDEC_", "OMP_", "GOMP_", "GGML_", "LLAMA_", "CUDA_", "HIP_", "ROCR_")  # variables that change a run
_OTHERS = ("NO_COLOR", "TERM", "PYTHONIOENCODING", "PYTHONUTF8", "LC_ALL", "LC_CTYPE", "LANG", "HF_HOME", "HF_HUB_CACHE")
_ONLY_NAMED = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "SSL_CERT_FILE")  # they may hold a password
_NOT_SHOWN = "set"


def execute(given: Given) -> int:
    """Examine this machine; returns the exit code."""
    document, settings = examined(given)
    if settings.value("json", bool):
        answering.answer_json(document)
    else:
        answering.answer(render_doctored(document, colour=answering.colour(), columns=answering.columns()))
    return EXIT_DONE if document["llama_cpp"]["error"] is None else EXIT_COULD_NOT_START


def examined(given: Given) -> tuple[Json, Settings]:
    """Everything that doctor knows, as its JSON document, and the settings that it goes by."""
    settings, notices = _resolved(given)
    llama = _llama()
    facts = {
        "schema": "specdec.doctor/1",
        "versions": {
            "specdec": __version__,
            "python": platform.python_version(),
            **{name: _version(name) for name in _PACKAGES},
        },
        "system": {"name": platform.platform(), "machine": platform.machine(), "python": platform.python_implementation()},
        "llama_cpp": llama,
        "processor": _processor(settings, llama),
        "gpus": [
            {"maker": gpu.maker, "name": gpu.name, "backend": gpu.backend, "option": gpu.option} for gpu in hardware.gpus()
        ],
        "memory": _memory(),
        "caches": list(_caches()),
        "hub": _hub(),
        "settings": _settings(notices),
        "terminal": {"stdout": sys.stdout.isatty(), "stdout_encoding": sys.stdout.encoding, "stderr": sys.stderr.isatty()},
    }
    clean = _without_home(facts)
    return {**clean, "warnings": [{"what": what, "fix": fix} for what, fix in warnings_of(clean)]}, settings


def _resolved(given: Given) -> tuple[Settings, list[str]]:
    """The settings, and what is wrong with those of the environment, which may be why somebody asks."""
    try:
        settings = resolve(given, os.environ)
    except UsageError as error:
        return resolve(given, {}), [" ".join(part for part in (error.what, error.why) if part)]
    return settings, list(settings.notices)


def _llama() -> Json:
    """What the build says of itself, or why it cannot be asked."""
    empty: Json = {"build": None, "commit": None, "backends": [], "features": [], "devices": [], "error": None}
    try:
        from specdec_cli.llama import library

        devices = [
            {
                "name": device.name,
                "description": device.description.strip(),
                "gpu": device.is_gpu,
                "free": device.memory_free,
                "total": device.memory_total,
            }
            for device in library.devices()
        ]
        return {
            **empty,
            "build": library.build(),
            "commit": library.commit(),
            "backends": list(library.backends()),
            "features": sorted(library.cpu_features()),
            "devices": devices,
        }
    except Exception as error:  # whatever a library that does not fit this machine comes up with
        return {**empty, "error": f"{type(error).__name__}: {error}"}


def _processor(settings: Settings, llama: Json) -> Json:
    present = hardware.processor_features()
    physical = psutil.cpu_count(logical=False) or psutil.cpu_count() or 1
    threads = settings.value("threads", int) or physical
    names = [device["description"] for device in llama["devices"] if device["name"] == "CPU"]
    return {
        "name": (names or [platform.processor() or platform.machine()])[0],
        "physical_cores": physical,
        "logical_cores": psutil.cpu_count() or 1,
        "usable_cores": hardware.usable_cores(),
        "threads": threads,
        "threads_batch": settings.value("threads_batch", int) or threads,
        "load": round(psutil.getloadavg()[0], 2),
        "features": sorted(present),
        "unused_features": sorted(present - set(llama["features"])) if llama["features"] else [],
    }


def _memory() -> Json:
    memory = psutil.virtual_memory()
    left = _limit_left()
    if left is not None and left > memory.total:  # how some systems say that there is no limit
        left = None
    return {"total": memory.total, "available": memory.available, "limit_leaves": left}


def _limit_left() -> int | None:
    try:
        from specdec_cli.room import limit_left
    except Exception:  # it stands on llama.cpp, which may not load
        return None
    return limit_left()


def _caches() -> Iterator[Json]:
    for what, folder in (("hub", hub_state().cache), ("specdec", cache.folder())):
        yield {"what": what, "folder": str(folder), "bytes": _n_bytes(folder), "disk_free": _disk_free(folder)}


def _n_bytes(folder: Path) -> int:
    """Bytes of the files in a folder, none counted twice."""
    total = 0
    for here, _, files in os.walk(folder):
        for file in files:
            try:
                total += Path(here, file).lstat().st_size
            except OSError:
                continue
    return total


def _disk_free(folder: Path) -> int | None:
    for here in (folder, *folder.parents):
        try:
            return shutil.disk_usage(here).free
        except OSError:
            continue
    return None


def _hub() -> Json:
    state = hub_state()
    return {"endpoint": state.endpoint, "offline": state.is_offline, "token": state.has_token}


def _settings(notices: list[str]) -> Json:
    own = profiles.folders()[0]
    return {
        "environment": dict(sorted(_variables(os.environ))),
        "notices": [scrub(notice) for notice in notices],
        "profiles_folder": str(own),
        "profiles": sorted(profiles.available()),
        "own_profiles": sorted(path.stem for path in profiles.available().values() if path.parent == own),
    }


def _variables(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in environment.items():
        if name.startswith(_PREFIXES) or name in _OTHERS:
            yield name, scrub(value)
        elif name.upper() in _ONLY_NAMED and value:
            yield name, _NOT_SHOWN


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _without_home(value: Any) -> Any:
    """The same with ~ wherever a text names the home folder."""
    if isinstance(value, str):
        home = os.path.expanduser("~")  # noqa: PTH111 (Path.home() raises where there is none)
        return from_home(value).replace(home + os.sep, f"~{os.sep}") if len(home) > 1 else value
    if isinstance(value, dict):
        return {key: _without_home(item) for key, item in value.items()}
    return [_without_home(item) for item in value] if isinstance(value, list) else value
