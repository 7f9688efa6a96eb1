"""Finds credentials in a session, and replaces them with placeholders."""

import json
import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from typing import Final, NamedTuple, TypeVar
from urllib.parse import quote

from foldline.context.numbers import many
from foldline.context.projection import project
from foldline.context.proof import prove
from foldline.history.contents import CONTENTS, OUTPUTS
from foldline.protocol import BaseMessage, Compaction, Entry, RequestRecord
from foldline.protocol.messages import Record
from foldline.sequences import grouped

from .base import Json, bytes_in
from .export import Original


@dataclass(frozen=True, slots=True)
class Detector:
    """Recognises credentials of one kind in a line."""

    kind: str
    pattern: re.Pattern[str]
    hints: tuple[str, ...]
    """Only lines with one of these are searched. Lower case."""
    gate: re.Pattern[str] | None = None
    """Matches in every such line, and is faster than `pattern`."""
    most: int = 1_000_000
    """Most hints in a line: with more of them, the line assigns nothing and the pattern would be slow."""
    group: int = 0
    """The group that is the credential, or 0 if that group is empty."""
    accepts: Callable[[str], object] | None = None
    """Tells credentials from similar values."""


_DIGIT: Final = re.compile(r"\d")
_SIGNS: Final = frozenset("!@#$%^&*+=?~")
_WITHOUT_MEANING: Final = re.compile(
    r"(?i)x{4,}|\*{3,}|\.{3}|…|<|>|\$\{?\w|%\(|\{\{|redacted|example|placeholder|change.?me|dummy"
    r"|your[-_ ]|\s"
)
"""Found in placeholders, which docs and templates are full of."""


def is_telling(value: str) -> bool:
    """Return whether a value is distinctive enough to be replaced everywhere."""
    signs = sum(char.isdigit() or char in _SIGNS for char in value)
    return 0 < signs < len(value) >= 6 and len(set(value)) >= 4


def _is_secret(value: str) -> bool:
    """Return whether a value looks random."""
    if not is_telling(value) or _DIGIT.search(value) is None:
        return False
    return not re.fullmatch(
        r"[a-z]+(?:[-_./][a-z]+)*[-_]?\d{0,2}|[A-Z_]+\d{0,2}|[\w.]+\(.*|/.*|[\d.:,-]+", value
    )


def _is_no_placeholder(value: str) -> bool:
    heuristic = import_module("detect_secrets.filters.heuristic")
    return not (
        _WITHOUT_MEANING.search(value) is not None
        or heuristic.is_templated_secret(value)
        or heuristic.is_prefixed_with_dollar_sign(value)
        or heuristic.is_not_alphanumeric_string(value)
        or heuristic.is_sequential_string(value)
    )


@cache
def by_hints() -> dict[tuple[str, ...], list[Detector]]:
    """Return all detectors, grouped by the hints they share."""
    return grouped((detector.hints, detector) for detector in (*_from_library(), *_OURS, *_keywords()))


def _from_library() -> Iterator[Detector]:
    for module, plugin, kind, hints, group, gate in _PLUGINS:
        detector = getattr(import_module(f"detect_secrets.plugins.{module}"), plugin)
        valid = getattr(detector, "is_formally_valid", None)
        for pattern in detector.denylist:
            yield Detector(
                kind,
                pattern,
                hints,
                gate=re.compile(gate) if gate else None,
                group=pattern.groups and group,
                accepts=_accepts(kind, valid),
            )


def _accepts(kind: str, valid: Callable[[str], bool] | None) -> Callable[[str], object]:
    if valid is not None:
        return lambda value: valid(".".join(value.split(".")[:2]))
    return _is_no_placeholder if kind == "password-in-url" else _DIGIT.search


_PLUGINS: Final = (
    ("artifactory", "ArtifactoryDetector", "artifactory", ("akc", "ap"), 0, r"A[KP][A-F\d][a-zA-Z0-9]{8}"),
    ("aws", "AWSKeyDetector", "aws-access-key", ("akia", "asia", "abia", "acca", "a3t", "aws"), 1, None),
    ("azure_storage_key", "AzureStorageKeyDetector", "azure-storage-key", ("accountkey=",), 0, None),
    ("basic_auth", "BasicAuthDetector", "password-in-url", ("://",), 1, "@"),
    ("cloudant", "CloudantDetector", "cloudant", ("cloudant",), 1, None),
    ("discord", "DiscordBotTokenDetector", "discord-token", (".",), 0, r"\.[\w-]{6}\.[\w-]{27}"),
    ("github_token", "GitHubTokenDetector", "github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
     0, None),
    ("gitlab_token", "GitLabTokenDetector", "gitlab-token", ("gl", "gr1348941"), 0, r"[a-zA-Z0-9_\-]{20}"),
    ("ibm_cloud_iam", "IbmCloudIamDetector", "ibm-cloud-key", ("key", "pwd", "pass", "token"), 1,
     r"[\w-]{44}"),
    ("ibm_cos_hmac", "IbmCosHmacDetector", "ibm-cos-key", ("secret",), 1, "[a-fA-F0-9]{48}"),
    ("jwt", "JwtTokenDetector", "json-web-token", ("eyj",), 0, None),
    ("mailchimp", "MailchimpDetector", "mailchimp-key", ("-us",), 0, None),
    ("npm", "NpmDetector", "npm-token", ("_authtoken",), 1, None),
    ("openai", "OpenAIDetector", "api-key", ("t3blbkfj",), 0, None),
    ("pypi_token", "PypiTokenDetector", "pypi-token", ("pypi-ag",), 0, None),
    ("sendgrid", "SendGridDetector", "sendgrid-key", ("sg.",), 0, None),
    ("slack", "SlackDetector", "slack-token", ("xox", "hooks.slack.com"), 0, None),
    ("softlayer", "SoftlayerDetector", "softlayer-key", ("softlayer", "sl_", "slapi"), 1, "[a-zA-Z0-9]{64}"),
    ("square_oauth", "SquareOAuthDetector", "square-secret", ("sq0csp-",), 0, None),
    ("stripe", "StripeDetector", "stripe-key", ("k_live_",), 0, None),
    ("telegram_token", "TelegramBotTokenDetector", "telegram-token", (":",), 0, r"\d{8}:[\w-]{35}"),
    ("twilio", "TwilioKeyDetector", "twilio-key", ("ac", "sk"), 0, r"(?:AC|SK)[a-z0-9]{32}"),
)  # fmt: skip
"""Module and class in the library, then `kind`, `hints`, `group` and `gate` of a `Detector`."""

_OURS: Final = (
    Detector("api-key", re.compile(r"\bsk-[A-Za-z0-9_-]{20,}"), ("sk-",), accepts=_DIGIT.search),
    Detector("api-key", re.compile(r"\b(?:gsk_|xai-|hf_|r8_|nvapi-)[A-Za-z0-9_-]{30,}"),
             ("gsk_", "xai-", "hf_", "r8_", "nvapi-"), accepts=_DIGIT.search),
    Detector("google-key", re.compile(r"\bAIza[\w-]{35}|\bGOCSPX-[\w-]{20,}|\bya29\.[\w-]{20,}"),
             ("aiza", "gocspx-", "ya29."), accepts=_DIGIT.search),
    Detector("github-token", re.compile(r"\bgithub_pat_\w{22,}"), ("github_pat_",), accepts=_DIGIT.search),
    Detector("npm-token", re.compile(r"\bnpm_[A-Za-z0-9]{36}"), ("npm_",), accepts=_DIGIT.search),
    Detector("authorization", re.compile(r"(?i)\b(?:bearer|basic) +([\w.~+/=-]{16,})"), ("bearer ", "basic "),
             group=1, accepts=_is_secret),
    Detector("password-in-url", re.compile(r"://[^\s:/@\"'<>]*:([^\s/@\"'<>]{3,})@[\w.-]"), ("://",),
             gate=re.compile("@"), group=1, accepts=_is_no_placeholder),
)  # fmt: skip
"""Keys that are newer than the library's last release."""


# --- keywords ---------------------------------------------------------------------------------------

_QUOTE: Final = re.compile("[\"'`]")
_NAMES: Final = ("key", "secret", "passw", "pwd", "db_pass", "contrase")
_SETTING: Final = re.compile(
    r"(?<![\w$.{-])[A-Z0-9_]*(?:API_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|PRIVATE_KEY|ACCESS_KEY)(?:_[A-Z0-9]+)?"
    r"\s*=\s*[\"']?([^\s\"'#]{6,})"
)
"""An assignment in an env file or a shell, quoted or not."""


def _keywords() -> Iterator[Detector]:
    plugin = import_module("detect_secrets.plugins.keyword")
    for pattern, group in plugin.QUOTES_REQUIRED_DENYLIST_REGEX_TO_GROUP.items():
        yield Detector(
            "password", pattern, _NAMES, gate=_QUOTE, most=24, group=group, accepts=_is_assigned_secret
        )
    names = ("key=", "token", "secret", "passw", "key ")
    yield Detector("password", _SETTING, names, group=1, accepts=_is_set)


def _is_assigned_secret(value: str) -> bool:
    return len(value) >= 8 and _is_secret(value) and _is_no_placeholder(value)


def _is_set(value: str) -> bool:
    return _is_no_placeholder(value) and not re.search(r"[()\[\]]|^[\w]+\.[\w.]+$", value)


class Find(NamedTuple):
    """A credential in a text."""

    kind: str
    start: int
    end: int
    value: str
    pieces: tuple[str, ...] = ()
    """The secret parts of a value over several lines."""


_BEGIN: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]*)PRIVATE KEY(?: BLOCK)?-----|Private-Lines: *\d+")
_LONGEST_KEY: Final = 20_000
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]{16,}={0,2}")
_KEY_LINE: Final = re.compile(
    r"(?:[^\n]{0,24}?[A-Za-z0-9+/=]{1,128}|[A-Za-z-]+: [^\n]{1,80})?[ \t]*\r?(?:\n|$)"
)


def private_keys(flat: str, lowered: str) -> Iterator[Find]:
    """Yield the private keys in order. `lowered` is `flat.lower()`."""
    if "private key" not in lowered and "private-lines" not in lowered:
        return
    begins = list(_BEGIN.finditer(flat))
    for begin, following in zip_longest(begins, begins[1:]):
        limit = min(following.start() if following else len(flat), begin.end() + _LONGEST_KEY)
        ending = f"-----END {begin[1] or ''}PRIVATE KEY"
        end = flat.find(ending, begin.end(), limit) if begin[1] is not None else -1
        if end < 0:
            end = stop = _end_of_cut_key(flat, begin.end(), limit)
        else:
            stop = end + len(ending)
            dashes = flat.find("-----", stop, stop + 20)
            if dashes >= 0:
                stop = dashes + 5
        pieces = tuple(_BASE64.findall(flat, begin.end(), end))
        if any(len(piece) >= 32 for piece in pieces):
            yield Find("private-key", begin.start(), stop, "".join(pieces), pieces)


def _end_of_cut_key(flat: str, start: int, limit: int) -> int:
    """Return the end of a key without an end mark."""
    place = flat.find("\n", start, limit) + 1 or limit
    end = place
    while place < limit and (line := _KEY_LINE.match(flat, place)) and place < line.end() <= limit:
        place = line.end()
        if _BASE64.search(line[0]):
            end = place
    return end - (flat[end - 1 : end] == "\n")


_LONGEST_LINE: Final = 4_000
"""In longer lines (minified code, a JSON document) only the surroundings of a hint are searched."""
_BEFORE, _AFTER = 400, 3_000
_ESCAPED: Final = re.compile(r"\\+([\"'nrt/])")
_SIGN_OF: Final = {"n": "\n", "r": "\r", "t": "\t"}
_TOKEN_END: Final = re.compile(r"[\w-]*")
_JWT_END: Final = re.compile(r"[\w-]*(?:\.[\w-]+)*")
_NAME: Final = re.compile(r"[A-Za-z]+=(?=\S{20})")
_LEFT_EDGES: Final = " \t=:\"'`,;"
_RIGHT_EDGES: Final = " \t:\"'`,;"


def finds(text: str) -> list[Find]:
    """Return the credentials in a text, in order and without overlaps."""
    flat = _Flat.of(text)
    lowered = flat.text.lower()
    if len(lowered) != len(flat.text):  # a few letters change their length
        lowered = "".join(char.lower() if char.isascii() else char for char in flat.text)
    candidates = list(private_keys(flat.text, lowered))
    for hints, detectors in by_hints().items():
        if not any(hint in lowered for hint in hints):
            continue
        for start, end in _lines_with(hints, lowered):
            line = flat.text[start:end]
            crowd = sum(lowered.count(hint, start, end) for hint in hints)
            for detector in detectors:
                if crowd <= detector.most and (detector.gate is None or detector.gate.search(line)):
                    candidates += _in_line(detector, line, start)
    return [flat.located(find) for find in _without_overlaps(candidates)]


@dataclass(frozen=True, slots=True)
class _Flat:
    """A text with escaped quotes and line ends resolved, as in JSON within text at any depth."""

    original: str
    text: str
    starts: list[int]
    """Positions in `text` from which on the original is ahead by `shifts` characters."""
    shifts: list[int]

    @classmethod
    def of(cls, text: str) -> "_Flat":
        if "\\" not in text:
            return cls(text, text, [], [])
        pieces: list[str] = []
        starts: list[int] = []
        shifts: list[int] = []
        done = shift = 0
        for escape in _ESCAPED.finditer(text):
            pieces += (text[done : escape.start()], _SIGN_OF.get(escape[1], escape[1]))
            starts.append(escape.start() - shift + 1)
            shift += len(escape[0]) - 1
            shifts.append(shift)
            done = escape.end()
        return cls(text, "".join((*pieces, text[done:])), starts, shifts)

    def located(self, find: Find) -> Find:
        start, end = self._place(find.start), self._place(find.end - 1) + 1
        value = find.value if find.pieces else self.original[start:end]
        return find._replace(start=start, end=end, value=value)

    def _place(self, position: int) -> int:
        after = bisect_right(self.starts, position)
        return position + (self.shifts[after - 1] if after else 0)


def _lines_with(hints: tuple[str, ...], lowered: str) -> Iterator[tuple[int, int]]:
    places = sorted({place for hint in hints for place in _places(hint, lowered)})
    done = 0
    for place in places:
        if place < done:
            continue
        start = lowered.rfind("\n", 0, place) + 1
        end = lowered.find("\n", place)
        end = len(lowered) if end < 0 else end
        if end - start > _LONGEST_LINE:
            start, end = max(start, place - _BEFORE), min(end, place + _AFTER)
            done = end - _BEFORE if end < len(lowered) and lowered[end] != "\n" else end
        else:
            done = end
        yield start, end


def _places(hint: str, lowered: str) -> Iterator[int]:
    place = lowered.find(hint)
    while place >= 0:
        yield place
        place = lowered.find(hint, place + len(hint))


def _in_line(detector: Detector, line: str, offset: int) -> Iterator[Find]:
    for match in detector.pattern.finditer(line):
        group = detector.group if match[detector.group] is not None else 0
        start, end = match.span(group)
        if group == 0:
            if start and line[start - 1].isalnum() and line[start].isalnum():
                continue  # the middle of something longer, such as a file in base64
            token_end = _JWT_END if detector.kind == "json-web-token" else _TOKEN_END
            end = token_end.match(line, end).end()  # type: ignore[union-attr]  # both match an empty text
        if (name := _NAME.match(line, start, end)) is not None:
            start = name.end()
        while start < end and line[start] in _LEFT_EDGES:
            start += 1
        while end > start and line[end - 1] in _RIGHT_EDGES:
            end -= 1
        value = line[start:end]
        if value and (detector.accepts is None or detector.accepts(value)):
            yield Find(detector.kind, offset + start, offset + end, value)


def _without_overlaps(candidates: list[Find]) -> list[Find]:
    """Return the finds in order; of two that overlap, the longer one."""
    kept: list[Find] = []
    for find in sorted(candidates, key=lambda find: (find.start, -find.end)):
        if not kept or find.start >= kept[-1].end:
            kept.append(find)
        elif find.end - find.start > kept[-1].end - kept[-1].start:
            kept[-1] = find
    return kept


R = TypeVar("R", bound=Record)
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def redacted(original: Original) -> Original:
    """Return the session with placeholders. Its `redactor` handles side files.

    Requests with changed messages lose their digest: it proves nothing any more, and could confirm a guess.
    """
    redactor = Redactor()
    for text in _texts(original):
        redactor.look_at(text)
    return _redacted(redactor, original)


def _redacted(redactor: "Redactor", original: Original) -> Original:
    entries = _without_stale_digests(original.entries, list(map(redactor.record, original.entries)))
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
        """Placeholders by value, piece and spelling: replaced in any text. Longest first."""
        self._counts: dict[str, int] = {}

    @property
    def counts(self) -> Mapping[str, int]:
        return self._counts

    def __str__(self) -> str:
        """Return the report, as a sentence. It never holds a value."""
        if not self._counts:
            return "Nothing that looks like a credential was found."
        total = sum(self._counts.values())
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(self._counts.items()))
        return f"{many(total, 'credential')} redacted: {kinds}."

    def look_at(self, text: str) -> None:
        """Learn the credentials in a text."""
        if len(text) < 6 or text in self._spans:
            return
        spans = [(find.start, find.end, self._placeholder(find)) for find in finds(text)]
        if spans:
            self._spans[text] = spans

    def text(self, text: str) -> str:
        """Return a text with placeholders."""
        for start, end, placeholder in reversed(self._spans.get(text, ())):
            text = text[:start] + placeholder + text[end:]
        for value, placeholder in self._everywhere.items():
            if value in text:
                text = text.replace(value, placeholder)
        return text

    def arguments(self, text: str) -> str:
        """Return the arguments of a call with placeholders. JSON stays JSON."""
        value = _parsed(text)
        if value is None:
            return self.text(text)
        clean = _walked(value, self.text)
        if clean == value:
            return text
        # Lone surrogates, which UTF-8 cannot encode, stay escaped.
        return json.dumps(clean, ensure_ascii=_HALF.search(text) is not None)

    def record(self, record: R) -> R:
        """Return an entry or header with placeholders.

        In a session with credentials, signatures are dropped: they may seal reasoning about a credential,
        which the provider's model would repeat.
        """
        value: Json = record.model_dump(exclude_none=True)
        clean = _walked(value, self.text, self.arguments, keeps_signatures=not self._counts)
        return record if clean == value else type(record).model_validate(clean)

    def data(self, data: bytes) -> bytes:
        """Return a side file's content with placeholders. Need not be UTF-8."""
        return self.text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

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
        self._everywhere = dict(sorted(self._everywhere.items(), key=lambda item: -len(item[0])))
        return placeholder


def _spellings(value: str) -> list[str]:
    """Return a value as written in text, JSON and URLs."""
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
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _walked(
    value: Json,
    on_text: Callable[[str], str],
    on_arguments: Callable[[str], str] | None = None,
    *,
    keeps_signatures: bool = True,
) -> Json:
    """Return a JSON value with every text replaced by `on_text`.

    Args:
        on_arguments: for a dumped entry: replaces the arguments of calls. Opaque fields stay as they are.
        keeps_signatures: whether to keep the signatures of a provider, and its name.
    """
    if isinstance(value, str):
        return on_text(value)
    walk = partial(_walked, on_text=on_text, on_arguments=on_arguments, keeps_signatures=keeps_signatures)
    if isinstance(value, list | tuple):
        return type(value)(map(walk, value))
    if not isinstance(value, dict):
        return value
    opaque = _OPAQUE.get(value.get("type", "")) if on_arguments else None
    walked: dict[Json, Json] = {}
    for key, item in value.items():
        if not keeps_signatures and opaque == "signature" and key in ("signature", "signed_by"):
            continue
        if key == opaque:
            new = item
        elif on_arguments and key == "arguments" and isinstance(item, str):
            new = on_arguments(item)
        else:
            new = walk(item)
        walked[on_text(key) if isinstance(key, str) else key] = new
    return walked


_OPAQUE: Final = {"image": "data", "thinking": "signature", "tool_call": "signature"}
"""Fields without readable text, by type of part: pixels in base64, and data that a provider encrypted."""


def _texts(original: Original) -> Iterator[str]:
    """Yield every text of a session, its side files and its subagents."""
    texts: list[str] = []

    def gather(text: str) -> str:
        texts.append(text)
        return text

    def gather_arguments(text: str) -> str:
        gather(text)  # also as one text, in which a name and its value are side by side
        _walked(_parsed(text), gather)
        return text

    for record in (original.header, *original.entries):
        _walked(record.model_dump(exclude_none=True), gather, gather_arguments)
        yield from texts
        texts.clear()
    for path in side_files(original.folder):
        yield bytes_in(path).decode("utf-8", "surrogateescape")  # empty if unreadable: the writer says so
    for child in original.children:
        yield from _texts(child)


def side_files(folder: Path | None) -> list[Path]:
    """Return a session's other files, in a stable order, without links."""
    if folder is None:
        return []
    files: list[Path] = []
    for name in (CONTENTS, OUTPUTS):
        if (folder / name).is_symlink():
            continue
        with suppress(OSError), os.scandir(folder / name) as items:
            paths = [Path(item.path) for item in items if item.is_file(follow_symlinks=False)]
            files += sorted(path for path in paths if not path.name.startswith("."))
    return files


def _without_stale_digests(before: Sequence[Entry], after: list[Entry]) -> list[Entry]:
    """Drop the digest of requests that it no longer proves."""
    changed = [
        old.index
        for old, new in zip(before, after, strict=True)
        if old is not new and isinstance(old, BaseMessage | Compaction)
    ]
    if not changed:
        return after
    stale = {
        proof.sent.record.index
        for proof in prove(after)
        if proof.sent.record.index > changed[0] and proof.digest != proof.sent.record.digest
    }
    return [_without_digest(entry) if entry.index in stale else entry for entry in after]


def _without_digest(entry: Entry) -> Entry:
    return entry.model_copy(update={"digest": ""}) if isinstance(entry, RequestRecord) else entry
