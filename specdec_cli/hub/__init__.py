"""Model references to local files: paths, the embedded demo model, repositories and files of the hub."""

from __future__ import annotations

from specdec_cli.hub.references import Embedded, HubFile, HubRepo, LocalPath, Reference, parse
from specdec_cli.hub.resolving import Progress, resolve

__all__ = ["Embedded", "HubFile", "HubRepo", "LocalPath", "Progress", "Reference", "parse", "resolve"]
