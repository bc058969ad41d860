"""Matches a pattern for the process that started this one: a regular expression may take longer than anybody lives.

Run as a script: a line of JSON in, a line out. Ends with its input, or is ended.
"""

from __future__ import annotations

import json
import re
import sys
import warnings


def main() -> None:
    asked = json.loads(sys.stdin.buffer.readline())
    warnings.simplefilter("ignore")
    try:
        search = re.compile(asked["pattern"]).search
        answer: dict[str, object] = {"found": [i for i, texts in enumerate(asked["texts"]) if any(map(search, texts))]}
    except (re.error, OverflowError, RecursionError, MemoryError) as error:
        answer = {"error": str(error) or type(error).__name__}
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
