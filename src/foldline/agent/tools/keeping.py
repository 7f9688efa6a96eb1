"""The output of a job in a file: readable while it grows, clean text, and never larger than a bound."""

import asyncio
import os
import threading
from pathlib import Path
from typing import BinaryIO

from foldline.files import create_private, make_private, opened, read_regular

from ..api_keys import Mask
from .text import printed, sized

_START = 16 * 1024 * 1024
"""Bytes kept from the start."""
_END = 1024 * 1024
"""Bytes kept, at least, from the end of an output longer than that."""
_LINE = 64 * 1024
"""Bytes of an unfinished line that are held back until it ends: a progress bar is one line."""


class Keeper:
    """Takes output as it comes. The file holds its start, what was left out, and its end, at any moment."""

    def __init__(self, number: int, path: Path, file: BinaryIO, mask: Mask) -> None:
        self.number = number
        self.path = path
        self.trouble = ""
        """Why nothing more is kept: the disk is full."""
        self._file = file
        self._mask, self._masked = mask, mask.stream()
        """Of whole texts, where a terminal sequence may have stood within a key; of what comes in pieces."""
        self._held = b""
        """The line that has not ended yet."""
        self._written = 0
        """Bytes of the start."""
        self._end = bytearray()
        self._left_out = 0
        self._lock = threading.Lock()
        """A job that is stopped is closed here while a thread may still be at its last piece."""

    @classmethod
    def new(cls, folder: Path, mask: Mask) -> "Keeper":
        """A keeper with the next number and a file of its own, readable by its owner only.

        Raises:
            OSError: the file cannot be made.
        """
        make_private(folder)
        number = max((_number(path) for path in folder.glob("job-*.txt")), default=0)
        while True:
            number += 1
            path = file_of(number, folder)
            try:
                handle = create_private(path)
            except FileExistsError:
                continue
            return cls(number, path, os.fdopen(handle, "wb", buffering=0), mask)

    async def take(self, chunk: bytes) -> bool:
        """Always wants more: a program that writes must not stop because nobody keeps it."""
        await asyncio.to_thread(self._take, chunk)
        return True

    def text(self) -> str:
        """What is kept so far, the unfinished line included. Reads the file: call it off the event loop."""
        with self._lock:
            kept, held = read_regular(self.path), self._held
        trouble = f"\n[{self.trouble}]" if self.trouble else ""
        return kept.decode("utf-8", "replace") + self._printed(held) + trouble

    def tail(self, size: int) -> str:
        """The end of what is kept so far, about so many bytes of it, from the start of a line. Reads the
        file: call it off the event loop."""
        with self._lock, opened(self.path) as file:
            start = max(file.seek(0, os.SEEK_END) - size, 0)
            file.seek(start)
            kept, held = file.read(size), self._held
        if start:
            kept = kept.partition(b"\n")[2] or kept
        trouble = f"\n[{self.trouble}]" if self.trouble else ""
        return kept.decode("utf-8", "replace") + self._printed(held) + trouble

    def close(self) -> None:
        """Write what is held back."""
        with self._lock:
            held, self._held = self._held + self._masked.rest(), b""
            self._keep(held)
            self._file.close()

    def _take(self, chunk: bytes) -> None:
        with self._lock:
            lines, line_end, rest = (self._held + self._masked.feed(chunk)).rpartition(b"\n")
            self._held = rest if len(rest) <= _LINE else b""
            self._keep(lines + line_end if self._held or not rest else lines + line_end + rest)

    def _keep(self, output: bytes) -> None:
        if not output or self.trouble or self._file.closed:
            return
        text = self._printed(output).encode()
        try:
            room = _START - self._written
            self._written += self._file.write(text[:room]) if room else 0
            self._keep_end(text[room:])
        except OSError as error:
            self.trouble = f"the output is not kept from here on: {error.strerror or error}"

    def _printed(self, output: bytes) -> str:
        return self._mask(printed(output))

    def _keep_end(self, text: bytes) -> None:
        self._end += text
        if len(self._end) <= 2 * _END:
            self._file.write(text)
            return
        self._left_out += len(self._end) - _END
        del self._end[:-_END]
        self._file.seek(_START)
        self._file.write(f"\n[… {sized(self._left_out)} of output were not kept …]\n".encode() + self._end)
        self._file.truncate()


def file_of(number: int, folder: Path) -> Path:
    """Where the output of a job is."""
    return folder / f"job-{number}.txt"


def _number(path: Path) -> int:
    digits = path.stem.removeprefix("job-")
    return int(digits) if digits.isdecimal() else 0
