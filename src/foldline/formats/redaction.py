"""Finds credentials in a session and replaces them with placeholders."""

import json
import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple, TypeVar
from urllib.parse import quote

from foldline.history.contents import CONTENTS, OUTPUTS
from foldline.json_text import parse_json
from foldline.protocol import BaseMessage, Compaction, Entry, RequestRecord
from foldline.protocol.messages import Record
from foldline.sequences import grouped
from foldline.text.numbers import many
from foldline.view.projection import project

from .base import Json, bytes_in
from .export import Original


@dataclass(frozen=True, slots=True)
class Detector:
    """Recognises credentials of one kind in a line of text."""

    kind: str
    pattern: re.Pattern[str]
    hints: tuple[str, ...]
    """Lower-case strings.

    Only lines that contain at least one of them are searched.
    """
    gate: re.Pattern[str] | None = None
    """A faster pattern that matches every line that `pattern` matches.

    Lines that it does not match are skipped.
    """
    most: int = 1_000_000
    """Maximum number of hints in a line.

    A line with more hints is skipped, because matching would be slow.
    """
    group: int = 0
    """The group of `pattern` that contains the credential.

    If the group is empty, the whole match is the credential.
    """
    accepts: Callable[[str], object] | None = None
    """Returns whether a match is a credential.

    False for values that merely look similar.
    """


_DIGIT: Final = re.compile(r"\d")
_SIGNS: Final = frozenset("!@#$%^&*+=?~")
_WITHOUT_MEANING: Final = re.compile(
    r"(?i)x{4,}|\*{3,}|\.{3}|…|<|>|\$\{?\w|%\(|\{\{|redacted|example|placeholder|change.?me|dummy"
    r"|your[-_ ]|\s"
)
"""Matches placeholders, which are common in documentation and templates."""


def is_telling(value: str) -> bool:
    """Return whether a value is distinctive enough to be replaced everywhere."""
    signs = sum(char.isdigit() or char in _SIGNS for char in value)
    return 0 < signs < len(value) >= 6 and len(set(value)) >= 4


def _is_secret(value: str) -> bool:
    """Return whether a value looks random."""
    if not is_telling(value) or _DIGIT.search(value) is None:
        return False
    return not re.fullmatch(
        r"[a-z]+(?:[-_./][a-z]+)*[-_]?\d{0,2}|[A-Z_]+\d{0,2}|[\w.]+\(.*|/.*|[\d.:,-]+",
        value,
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
    return grouped(
        (detector.hints, detector)
        for detector in (*_from_library(), *_OURS, *_keywords())
    )


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
"""Each detector's module and class in the library.

They are followed by the detector's `kind`, `hints`, `group` and `gate`.
"""

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
"""Foldline's own detectors, for keys introduced after the library's last release."""


# --- keywords ---------------------------------------------------------------------------------------

_QUOTE: Final = re.compile("[\"'`]")
_NAMES: Final = ("key", "secret", "passw", "pwd", "db_pass", "contrase")
_SETTING: Final = re.compile(
    r"(?<![\w$.{-])[A-Z0-9_]*(?:API_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|PRIVATE_KEY|ACCESS_KEY)(?:_[A-Z0-9]+)?"
    r"\s*=\s*[\"']?([^\s\"'#]{6,})"
)
"""Matches an assignment in an env file or shell script, with or without quotes."""


def _keywords() -> Iterator[Detector]:
    plugin = import_module("detect_secrets.plugins.keyword")
    for pattern, group in plugin.QUOTES_REQUIRED_DENYLIST_REGEX_TO_GROUP.items():
        yield Detector(
            "password",
            pattern,
            _NAMES,
            gate=_QUOTE,
            most=24,
            group=group,
            accepts=_is_assigned_secret,
        )
    names = ("key=", "token", "secret", "passw", "key ")
    yield Detector(
        "password",
        _SETTING,
        names,
        group=1,
        accepts=_is_set,
    )


def _is_assigned_secret(value: str) -> bool:
    return len(value) >= 8 and _is_secret(value) and _is_no_placeholder(value)


def _is_set(value: str) -> bool:
    return _is_no_placeholder(value) and not re.search(
        r"[()\[\]]|^[\w]+\.[\w.]+$", value
    )


class Find(NamedTuple):
    """A credential that was found in a string."""

    kind: str
    start: int
    end: int
    value: str
    pieces: tuple[str, ...] = ()
    """The secret pieces of a credential that spans several lines."""


_BEGIN: Final = re.compile(
    r"-----BEGIN ([A-Z0-9 ]*)PRIVATE KEY(?: BLOCK)?-----|Private-Lines: *\d+"
)
_LONGEST_KEY: Final = 20_000
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]{16,}={0,2}")
_KEY_LINE: Final = re.compile(
    r"(?:[^\n]{0,24}?[A-Za-z0-9+/=]{1,128}|[A-Za-z-]+: [^\n]{1,80})?[ \t]*\r?(?:\n|$)"
)


def private_keys(flat: str, lowered: str) -> Iterator[Find]:
    """Yield the private keys in a string, in order of position.

    `lowered` is `flat.lower()`.
    """
    if "private key" not in lowered and "private-lines" not in lowered:
        return
    begins = list(_BEGIN.finditer(flat))
    following = [*(begin.start() for begin in begins[1:]), len(flat)]
    # Without any key, `following` still has the end of the text.
    for begin, next_start in zip(begins, following, strict=False):
        start = begin.end()
        limit = min(next_start, start + _LONGEST_KEY)
        end, stop = _end_of_key(flat, start, limit, begin[1])
        pieces = tuple(_BASE64.findall(flat, start, end))
        if any(len(piece) >= 32 for piece in pieces):
            yield Find(
                "private-key",
                begin.start(),
                stop,
                "".join(pieces),
                pieces,
            )


def _end_of_key(flat: str, start: int, limit: int, kind: str | None) -> tuple[int, int]:
    """Return the end of a key's content, and the end of its end marker.

    Args:
        kind: the words before `PRIVATE KEY` in the begin marker; None for a format without an end marker.
    """
    if kind is not None:
        ending = f"-----END {kind}PRIVATE KEY"
        end = flat.find(ending, start, limit)
        if end >= 0:
            stop = end + len(ending)
            dashes = flat.find("-----", stop, stop + 20)
            return end, dashes + 5 if dashes >= 0 else stop
    end = _end_of_cut_key(flat, start, limit)
    return end, end


def _end_of_cut_key(flat: str, start: int, limit: int) -> int:
    """Return the end of a key without an end marker."""
    place = flat.find("\n", start, limit) + 1 or limit
    end = place
    while place < limit:
        line = _KEY_LINE.match(flat, place)
        if line is None or not place < line.end() <= limit:
            break
        place = line.end()
        if _BASE64.search(line[0]):
            end = place
    if flat[end - 1 : end] == "\n":
        end -= 1
    return end


_LONGEST_LINE: Final = 4_000
"""Maximum length of a line that is searched as a whole, in characters.

In longer lines, such as minified code or JSON documents, only the text near each hint is searched.
"""
_BEFORE = 400
_AFTER = 3_000
"""How far a long line is searched after a hint, in characters.

`_BEFORE` is the distance before a hint.
"""
_ESCAPED: Final = re.compile(r"\\+([\"'nrt/])")
_SIGN_OF: Final = {"n": "\n", "r": "\r", "t": "\t"}
_TOKEN_END: Final = re.compile(r"[\w-]*")
_JWT_END: Final = re.compile(r"[\w-]*(?:\.[\w-]+)*")
_NAME: Final = re.compile(r"[A-Za-z]+=(?=\S{20})")
_LEFT_EDGES: Final = " \t=:\"'`,;"
_RIGHT_EDGES: Final = " \t:\"'`,;"


def finds(text: str) -> list[Find]:
    """Return the credentials in a string, in order of position and without overlaps."""
    flat = _Flat.of(text)
    lowered = flat.text.lower()
    if len(lowered) != len(flat.text):  # a few letters change length when lower-cased
        lowered = "".join(
            char.lower() if char.isascii() else char for char in flat.text
        )
    candidates = list(private_keys(flat.text, lowered))
    for hints, detectors in by_hints().items():
        for start, end in _lines_with(hints, lowered):
            line = flat.text[start:end]
            crowd = sum(lowered.count(hint, start, end) for hint in hints)
            for detector in detectors:
                if crowd <= detector.most:
                    candidates += _in_line(detector, line, start)
    return list(map(flat.located, _without_overlaps(candidates)))


@dataclass(frozen=True, slots=True)
class _Flat:
    """Text in which escaped quotes and line ends have been unescaped.

    Such escapes come from JSON, which may be nested to any depth.
    """

    original: str
    text: str
    starts: list[int]
    """Positions in `text` at which the offset to `original` changes."""
    shifts: list[int]
    """The offsets that apply from each position in `starts` onward."""

    @classmethod
    def of(cls, text: str) -> "_Flat":
        if "\\" not in text:
            return cls(text, text, [], [])
        pieces: list[str] = []
        starts: list[int] = []
        shifts: list[int] = []
        done = shift = 0
        for escape in _ESCAPED.finditer(text):
            sign = escape[1]
            pieces.append(text[done : escape.start()])
            pieces.append(_SIGN_OF.get(sign, sign))
            starts.append(escape.start() - shift + 1)
            shift += len(escape[0]) - 1
            shifts.append(shift)
            done = escape.end()
        return cls(text, "".join((*pieces, text[done:])), starts, shifts)

    def located(self, find: Find) -> Find:
        start = self._place(find.start)
        end = self._place(find.end - 1) + 1
        value = find.value if find.pieces else self.original[start:end]
        return find._replace(start=start, end=end, value=value)

    def _place(self, position: int) -> int:
        after = bisect_right(self.starts, position)
        if after == 0:
            return position
        return position + self.shifts[after - 1]


def _lines_with(hints: tuple[str, ...], lowered: str) -> Iterator[tuple[int, int]]:
    places: set[int] = set()
    for hint in hints:
        places.update(_places(hint, lowered))
    done = 0
    for place in sorted(places):
        if place < done:
            continue
        start = lowered.rfind("\n", 0, place) + 1
        end = lowered.find("\n", place)
        if end < 0:
            end = len(lowered)
        if end - start > _LONGEST_LINE:
            start = max(start, place - _BEFORE)
            end = min(end, place + _AFTER)
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
    if detector.gate is not None and detector.gate.search(line) is None:
        return
    for match in detector.pattern.finditer(line):
        group = detector.group if match[detector.group] is not None else 0
        start, end = match.span(group)
        if group == 0:
            if start and line[start - 1].isalnum() and line[start].isalnum():
                continue  # the middle of a longer string, such as a file in base64
            token_end = _JWT_END if detector.kind == "json-web-token" else _TOKEN_END
            end = token_end.match(line, end).end()  # type: ignore[union-attr]  # both match an empty string
        name = _NAME.match(line, start, end)
        if name is not None:
            start = name.end()
        while start < end and line[start] in _LEFT_EDGES:
            start += 1
        while end > start and line[end - 1] in _RIGHT_EDGES:
            end -= 1
        value = line[start:end]
        if value and (detector.accepts is None or detector.accepts(value)):
            yield Find(detector.kind, offset + start, offset + end, value)


def _without_overlaps(candidates: list[Find]) -> list[Find]:
    """Remove overlaps, and return the remaining finds in order of position.

    Of two finds that overlap, the longer one is kept.
    """
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
    walked: dict[Json, Json] = {}
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


_OPAQUE: Final = {"image": "data", "thinking": "signature", "tool_call": "signature"}
"""The field without readable text, by type of message part.

Such a field contains, for example, base64 or encrypted data.
"""


def _texts(original: Original) -> Iterator[str]:
    """Yield every string in a session, including those in its side files and subagents."""
    texts: list[str] = []

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
    files: list[Path] = []
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
    entries: list[Entry] = []
    is_changed = False
    for old, new in zip(before, after, strict=True):
        if isinstance(new, BaseMessage | Compaction):
            is_changed = is_changed or old is not new
        elif isinstance(new, RequestRecord) and is_changed:
            new = new.model_copy(update={"digest": ""})
        entries.append(new)
    return entries
