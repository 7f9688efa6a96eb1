"""A search program that replaces ripgrep and writes records in ripgrep's JSON format.

It runs in a separate process, because a slow regular expression holds the GIL and would freeze the screen.
The only argument is JSON: `{"pattern":…,"root":…,"ignore_case":…}`.
"""

import json
import os
import re
import stat
import sys
from base64 import b64encode
from collections.abc import Iterable, Iterator
from pathlib import Path

from foldline.files import opened

from .tree import files_below

INVALID = "not a valid regular expression: {error}"


def main() -> int:
    """Run the search, and return grep's exit status.

    The status is 0 for matches, 1 for no match, and 2 for an error.
    """
    options = json.loads(sys.argv[1])
    flags = re.IGNORECASE if options["ignore_case"] else re.NOFLAG
    try:
        expression = re.compile(options["pattern"], flags)
    except re.error as error:
        sys.stdout.write(f"{INVALID.format(error=error)}\n")
        return 2
    root = Path(options["root"])
    status = 1
    paths: Iterable[str] = [str(root)]
    if root.is_dir():
        paths = filter(_is_ordinary, files_below(root))
    for path in paths:
        for record in _records(path, expression):
            status = 0
            line = json.dumps(record, separators=(",", ":"))
            sys.stdout.buffer.write(line.encode() + b"\n")
    return status


def _is_ordinary(path: str) -> bool:
    """Return whether a path is a regular file, and not a link, pipe or device."""
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
