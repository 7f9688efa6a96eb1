"""Searching without ripgrep, as a program of its own that writes ripgrep's JSON records.

A process, because a regular expression that never ends holds Python's lock: in the agent it would freeze the
screen, here it is ended like any other command. Its one argument is `{"pattern":…,"root":…}`.
"""

import json
import os
import re
import stat
import sys
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

from foldline.files import opened

from .tree import files_below


def main() -> int:
    """Exit status as grep's: 0 found, 1 nothing found, 2 no valid expression."""
    options = json.loads(sys.argv[1])
    flags = re.IGNORECASE if options["ignore_case"] else re.NOFLAG
    try:
        expression = re.compile(options["pattern"], flags)
    except re.error as error:
        sys.stdout.write(f"not a valid regular expression: {error}\n")
        return 2
    root = Path(options["root"])
    found = False
    for path in filter(_is_ordinary, files_below(root)) if root.is_dir() else [str(root)]:
        for record in _records(path, expression):
            found = True
            sys.stdout.buffer.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")
    return 0 if found else 1


def _is_ordinary(path: str) -> bool:
    """No link, no pipe."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _records(path: str, expression: re.Pattern[str]) -> Iterator[dict[str, object]]:
    try:
        with opened(path) as file:
            if b"\x00" in file.peek(8192)[:8192]:
                return
            for number, line in enumerate(file, 1):
                text = line.rstrip(b"\r\n").decode("utf-8", "replace")
                if match := expression.search(text):
                    data = {
                        "path": {"bytes": b64encode(os.fsencode(path)).decode()},
                        "lines": {"text": text},
                        "line_number": number,
                        "submatches": [{"start": len(text[: match.start()].encode())}],
                    }
                    yield {"type": "match", "data": data}
    except OSError:
        return


if __name__ == "__main__":
    sys.exit(main())
