"""Whether what runs here is what was pinned: each package at one version, from no address of its own.

Run by `make lint` in the project's environment. Says each fault on a line of its own, and ends with 1.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import distributions
from pathlib import Path

PIN = re.compile(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.!+_-]+)")
OURS = "foldline"
BASE = frozenset({"pip", "setuptools", "wheel"})
"""What a new environment brings along."""


def normal(name: str) -> str:
    """A name as all its spellings share it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def faults(constraints: str, installed: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with these pins, given the versions of what is installed by normal name."""
    pinned: dict[str, str] = {}
    for line in filter(None, map(str.strip, constraints.splitlines())):
        pin = PIN.fullmatch(line)
        if pin is None:
            yield f"constraints.txt: {line!r} is no pin: NAME==VERSION, and no address."
        elif normal(pin[1]) in pinned:
            yield f"constraints.txt: {pin[1]} is pinned twice."
        else:
            pinned[normal(pin[1])] = pin[2]
    for name, version in sorted(installed.items()):
        if name not in pinned:
            yield f"{name} {version} is installed and not pinned: add {name}=={version} to constraints.txt."
        elif pinned[name] != version:
            yield f"{name} is pinned at {pinned[name]}, and {version} is installed: `make clean`, then again."


def main() -> int:
    text = (Path(__file__).parent.parent / "constraints.txt").read_text("utf-8")
    installed = {normal(found.name): found.version for found in distributions()}
    found = list(
        faults(text, {k: v for k, v in installed.items() if k not in BASE | {OURS}})
    )
    sys.stdout.writelines(f"{fault}\n" for fault in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
