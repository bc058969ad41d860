"""Put drawings into the pages of the site, so that they follow the reader's choice of light or dark.

In the pages they are images, which the repository's own view of the pages shows as well.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent.parent / "docs"
IMAGE = re.compile(r'<p><img alt="(?P<alt>[^"]*)" src="(?:\.\./)*(?P<path>assets/[^"]+\.svg)" ?/?></p>')


def on_page_content(html: str, **_: Any) -> str:
    return IMAGE.sub(lambda found: (DOCS / found["path"]).read_text(encoding="utf-8").strip(), html)
