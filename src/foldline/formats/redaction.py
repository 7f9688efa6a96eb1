"""Replaces the credentials in a session with placeholders."""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from foldline.history.contents import CONTENTS, OUTPUTS
from foldline.json_text import parse_json
from foldline.protocol import BaseMessage, Compaction, Entry, RequestRecord
from foldline.protocol.messages import Record
from foldline.text.numbers import many
from foldline.view.projection import project

from .base import Json, bytes_in
from .credentials import Find, finds, is_telling
from .export import Original

R = TypeVar("R", bound=Record)
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def redacted(original: Original) -> Original:
    """Return the session, with its credentials replaced by placeholders.

    Credentials in side files are replaced by the session's `redactor` when the files are written. Requests
    after the first changed message lose their digests, because these no longer match, and could be used to
    confirm a guessed credential.
    """
    redactor = Redactor()
    for text in _texts(original):
        redactor.look_at(text)
    return _redacted(redactor, original)


def _redacted(redactor: "Redactor", original: Original) -> Original:
    entries = list(map(redactor.record, original.entries))
    entries = _without_stale_digests(original.entries, entries)
    return replace(
        original,
        header=redactor.record(original.header),
        entries=entries,
        projection=project(entries),
        redactor=redactor,
        children=tuple(_redacted(redactor, child) for child in original.children),
    )


class Redactor:
    """Maps the credentials of one session to placeholders."""

    def __init__(self) -> None:
        self._placeholders: dict[str, str] = {}
        self._spans: dict[str, list[tuple[int, int, str]]] = {}
        self._everywhere: dict[str, str] = {}
        """Placeholders for the strings that are replaced in every text, longest string first.

        The strings are credentials, their pieces, and their other spellings.
        """
        self._counts: dict[str, int] = {}

    @property
    def counts(self) -> Mapping[str, int]:
        return self._counts

    def __str__(self) -> str:
        """Describe the credentials found, with their numbers by kind."""
        if not self._counts:
            return "Nothing that looks like a credential was found."
        total = sum(self._counts.values())
        kinds = ", ".join(
            f"{kind} {count}" for kind, count in sorted(self._counts.items())
        )
        return f"{many(total, 'credential')} redacted: {kinds}."

    def look_at(self, text: str) -> None:
        """Find the credentials in a string, and remember them."""
        if len(text) < 6 or text in self._spans:
            return
        spans = [
            (find.start, find.end, self._placeholder(find)) for find in finds(text)
        ]
        if spans:
            self._spans[text] = spans

    def text(self, text: str) -> str:
        """Return text with its credentials replaced by placeholders."""
        for start, end, placeholder in reversed(self._spans.get(text, ())):
            text = text[:start] + placeholder + text[end:]
        for value, placeholder in self._everywhere.items():
            if value in text:
                text = text.replace(value, placeholder)
        return text

    def arguments(self, text: str) -> str:
        """Return a call's arguments, with credentials replaced by placeholders.

        Valid JSON stays valid.
        """
        value = _parsed(text)
        if value is None:
            return self.text(text)
        clean = _walked(value, self.text)
        if clean == value:
            return text
        # Lone surrogates stay escaped, because UTF-8 cannot encode them.
        return json.dumps(clean, ensure_ascii=_HALF.search(text) is not None)

    def record(self, record: R) -> R:
        """Return an entry or header, with credentials replaced by placeholders.

        If the session contains any credentials, signatures are dropped, because they may contain encrypted
        reasoning that mentions a credential.
        """
        value: Json = record.model_dump(exclude_none=True)
        clean = _walked(
            value, self.text, self.arguments, keeps_signatures=not self._counts
        )
        return record if clean == value else type(record).model_validate(clean)

    def data(self, data: bytes) -> bytes:
        """Return a side file's content, with credentials replaced by placeholders.

        The content need not be valid UTF-8.
        """
        return self.text(data.decode("utf-8", "surrogateescape")).encode(
            "utf-8", "surrogateescape"
        )

    def _placeholder(self, find: Find) -> str:
        if find.value in self._placeholders:
            return self._placeholders[find.value]
        number = self._counts.get(find.kind, 0) + 1
        placeholder = f"[redacted:{find.kind}-{number}]"
        self._counts[find.kind] = number
        self._placeholders[find.value] = placeholder
        for value in find.pieces or (find.value,):
            for spelling in filter(is_telling, _spellings(value)):
                self._everywhere.setdefault(spelling, placeholder)
        longest_first = sorted(self._everywhere, key=len, reverse=True)
        self._everywhere = {
            spelling: self._everywhere[spelling] for spelling in longest_first
        }
        return placeholder


def _spellings(value: str) -> list[str]:
    """Return the forms in which a credential can appear in text, JSON and URLs."""
    spellings = [
        value,
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        quote(value, safe="", errors="surrogatepass"),
    ]
    unescaped = _parsed(f'["{value}"]') if "\\" in value else None
    if isinstance(unescaped, list):
        spellings += unescaped
    return spellings


def _parsed(text: str) -> Json:
    try:
        return parse_json(text)
    except ValueError:
        return None


def _walked(
    value: Json,
    on_text: Callable[[str], str],
    on_arguments: Callable[[str], str] | None = None,
    *,
    keeps_signatures: bool = True,
) -> Json:
    """Return a JSON value in which `on_text` has been applied to every string.

    Args:
        on_arguments: applied to the arguments of calls, if the value is a dumped entry. Opaque fields then
            stay unchanged.
        keeps_signatures: whether the provider's signatures and name are kept.
    """
    if isinstance(value, str):
        return on_text(value)
    walk = partial(
        _walked,
        on_text=on_text,
        on_arguments=on_arguments,
        keeps_signatures=keeps_signatures,
    )
    if isinstance(value, list | tuple):
        return type(value)(map(walk, value))
    if not isinstance(value, dict):
        return value
    opaque = _OPAQUE.get(value.get("type", "")) if on_arguments else None
    walked = {}
    for key, item in value.items():
        if (
            not keeps_signatures
            and opaque == "signature"
            and key in ("signature", "signed_by")
        ):
            continue
        if key == opaque:
            new = item
        elif on_arguments and key == "arguments" and isinstance(item, str):
            new = on_arguments(item)
        else:
            new = walk(item)
        walked[on_text(key) if isinstance(key, str) else key] = new
    return walked


_OPAQUE = {"image": "data", "thinking": "signature", "tool_call": "signature"}
"""The field without readable text, by type of message part.

Such a field contains, for example, base64 or encrypted data.
"""


def _texts(original: Original) -> Iterator[str]:
    """Yield every string in a session, including those in its side files and subagents."""
    texts = []

    def gather(text: str) -> str:
        texts.append(text)
        return text

    def gather_arguments(text: str) -> str:
        gather(
            text
        )  # detectors need the whole string, in which a name is next to its value
        _walked(_parsed(text), gather)
        return text

    for record in (original.header, *original.entries):
        _walked(record.model_dump(exclude_none=True), gather, gather_arguments)
        yield from texts
        texts.clear()
    for path in side_files(original.folder):
        # The writer reports a file that cannot be read.
        yield bytes_in(path).decode("utf-8", "surrogateescape")
    for child in original.children:
        yield from _texts(child)


def side_files(folder: Path | None) -> list[Path]:
    """Return a session's side files in a stable order.

    Symbolic links are left out.
    """
    if folder is None:
        return []
    files = []
    for name in (CONTENTS, OUTPUTS):
        if (folder / name).is_symlink():
            continue
        with suppress(OSError), os.scandir(folder / name) as items:
            paths = [
                Path(item.path) for item in items if item.is_file(follow_symlinks=False)
            ]
            files += sorted(path for path in paths if not path.name.startswith("."))
    return files


def _without_stale_digests(
    before: Sequence[Entry], after: Sequence[Entry]
) -> list[Entry]:
    """Remove the digests of all requests after the first changed message."""
    entries = []
    is_changed = False
    for old, new in zip(before, after, strict=True):
        if isinstance(new, BaseMessage | Compaction):
            is_changed = is_changed or old is not new
        elif isinstance(new, RequestRecord) and is_changed:
            new = new.model_copy(update={"digest": ""})
        entries.append(new)
    return entries
