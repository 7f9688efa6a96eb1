"""Credentials in a session replaced by placeholders, the same one by the same one, wherever they stand."""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from foldline.context.projection import project
from foldline.context.proof import prove
from foldline.files import read_regular
from foldline.history.catalog.deleting import OUTPUTS
from foldline.history.contents import CONTENTS
from foldline.protocol import BaseMessage, Compaction, Entry, RequestRecord
from foldline.protocol.base import Record

from ..base import Json
from ..writing import Original
from .detector_table import is_telling
from .detectors import Find, finds

R = TypeVar("R", bound=Record)
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def redacted(original: Original) -> Original:
    """The session without what looks like a credential. Its `redactor` does the same to side files.

    Requests whose messages changed keep no digest: it would prove nothing, and could confirm a guess.
    """
    redactor = Redactor()
    for text in _texts(original):
        redactor.look_at(text)
    before = list(original.entries)
    entries = _without_stale_digests(before, [redactor.record(entry) for entry in before])
    return replace(
        original,
        header=redactor.record(original.header),
        entries=entries,
        projection=project(entries),
        redactor=redactor,
    )


class Redactor:
    """Knows the credentials of one session by their values, and what to put in their place."""

    def __init__(self) -> None:
        self._placeholders: dict[str, str] = {}
        """By value."""
        self._spans: dict[str, list[tuple[int, int, str]]] = {}
        """What was found where, by text."""
        self._everywhere: dict[str, str] = {}
        """What is replaced wherever it stands: values, pieces of them, and how they are spelt elsewhere."""
        self._counts: dict[str, int] = {}

    @property
    def counts(self) -> Mapping[str, int]:
        """How many different credentials of each kind were found."""
        return self._counts

    def __str__(self) -> str:
        """The report, as a sentence. It never holds a value."""
        if not self._counts:
            return "Nothing that looks like a credential was found."
        total = sum(self._counts.values())
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(self._counts.items()))
        return f"{total} credential{'' if total == 1 else 's'} redacted: {kinds}."

    def look_at(self, text: str) -> None:
        """Remember the credentials in this text."""
        if len(text) < 6 or text in self._spans:
            return
        spans = [(find.start, find.end, self._placeholder(find)) for find in finds(text)]
        if spans:
            self._spans[text] = spans

    def text(self, text: str) -> str:
        """The text with placeholders. Credentials known from elsewhere are replaced here, too."""
        for start, end, placeholder in reversed(self._spans.get(text, ())):
            text = text[:start] + placeholder + text[end:]
        for value, placeholder in self._everywhere.items():
            if value in text:
                text = text.replace(value, placeholder)
        return text

    def arguments(self, text: str) -> str:
        """The arguments of a tool call: JSON stays JSON, and stays as it is where nothing was found."""
        value = _parsed(text)
        if value is None:
            return self.text(text)
        clean = _walked(value, self.text)
        if clean == value:
            return text
        # Half a character, which UTF-8 cannot hold, stays escaped.
        return json.dumps(clean, ensure_ascii=_HALF.search(text) is not None)

    def record(self, record: R) -> R:
        """An entry or header with placeholders; itself where nothing was found.

        Where the session holds a credential, signatures go, too: what a provider sealed in them may be
        reasoning about it, which its model would tell whoever sends it back.
        """
        value: Json = record.model_dump(exclude_none=True)
        clean = _walked(value, self.text, self.arguments)
        if self._counts:
            clean = _unsigned(clean)
        return record if clean == value else type(record).model_validate(clean)

    def data(self, data: bytes) -> bytes:
        """The content of a side file with placeholders; what is not text keeps its other bytes."""
        return self.text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def _placeholder(self, find: Find) -> str:
        known = self._placeholders.get(find.value)
        if known is not None:
            return known
        number = self._counts[find.kind] = self._counts.get(find.kind, 0) + 1
        placeholder = self._placeholders[find.value] = f"[redacted:{find.kind}-{number}]"
        spellings = [spelt for value in find.pieces or (find.value,) for spelt in _spellings(value)]
        for spelt in filter(is_telling, spellings):
            self._everywhere.setdefault(spelt, placeholder)
        longest_first = sorted(self._everywhere.items(), key=lambda item: -len(item[0]))
        self._everywhere = dict(longest_first)
        return placeholder


def _spellings(value: str) -> list[str]:
    """A value as it stands in plain text, in JSON and in a URL."""
    spelt = [
        value,
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        quote(value, safe="", errors="surrogatepass"),
    ]
    if "\\" in value:
        plain = _parsed(f'["{value}"]')
        spelt += plain if isinstance(plain, list) else []
    return list(dict.fromkeys(spelt))


def _parsed(text: str) -> Json:
    """The JSON value this text is; None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _walked(
    value: Json, on_text: Callable[[str], str], on_arguments: Callable[[str], str] | None = None
) -> Json:
    """The same value with each text in it, keys included, put through a function."""
    match value:
        case str():
            return on_text(value)
        case list() | tuple():
            return type(value)(_walked(item, on_text, on_arguments) for item in value)
        case dict():
            opaque = _OPAQUE.get(value.get("type", "")) if on_arguments else None
            return {
                on_text(key) if isinstance(key, str) else key: (
                    item
                    if key == opaque
                    else on_arguments(item)
                    if on_arguments and key == "arguments" and isinstance(item, str)
                    else _walked(item, on_text, on_arguments)
                )
                for key, item in value.items()
            }
        case _:
            return value


_OPAQUE = {"image": "data", "thinking": "signature", "tool_call": "signature"}
"""What no text can be read out of: base64 of pixels, and what a provider encrypted."""


def _unsigned(value: Json) -> Json:
    """The same value without what a provider signed, and who that was."""
    match value:
        case list() | tuple():
            return type(value)(map(_unsigned, value))
        case dict():
            signed = _OPAQUE.get(value.get("type", "")) == "signature"
            return {
                key: _unsigned(item)
                for key, item in value.items()
                if not (signed and key in ("signature", "signed_by"))
            }
        case _:
            return value


def _texts(original: Original) -> Iterator[str]:
    """Every text of a session and of its side files, those inside the arguments of calls included."""
    gathered: list[str] = []

    def gather(text: str) -> str:
        gathered.append(text)
        return text

    def gather_arguments(text: str) -> str:
        value = _parsed(text)
        # As one text, too: there a name and its value stand side by side.
        gathered.append(text)
        if value is not None:
            _walked(value, gather)
        return text

    for record in (original.header, *original.entries):
        _walked(record.model_dump(exclude_none=True), gather, gather_arguments)
        yield from gathered
        gathered.clear()
    for path in side_files(original.folder):
        try:
            yield read_regular(path).decode("utf-8", "surrogateescape")
        except OSError:
            continue  # whoever writes it says so


def side_files(folder: Path | None) -> list[Path]:
    """The files that belong to a session besides its history, in a stable order. Links are none of them."""
    if folder is None:
        return []
    found: list[Path] = []
    for name in (CONTENTS, OUTPUTS):
        if (folder / name).is_symlink():
            continue
        with suppress(OSError), os.scandir(folder / name) as items:
            files = [Path(item.path) for item in items if item.is_file(follow_symlinks=False)]
            found += sorted(path for path in files if not path.name.startswith("."))
    return found


def _without_stale_digests(before: Sequence[Entry], after: Sequence[Entry]) -> list[Entry]:
    changed = [
        old.index
        for old, new in zip(before, after, strict=True)
        if old is not new and isinstance(old, BaseMessage | Compaction)
    ]
    if not changed:
        return list(after)
    stale = {
        proof.sent.record.index
        for proof in prove(after)
        if proof.sent.record.index > changed[0] and proof.digest != proof.sent.record.digest
    }
    return [
        entry.model_copy(update={"digest": ""})
        if isinstance(entry, RequestRecord) and entry.index in stale
        else entry
        for entry in after
    ]
