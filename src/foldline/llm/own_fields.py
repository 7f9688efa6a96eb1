"""What Foldline adds to requests by itself, and what one model is not sent any more.

A server that refuses such a field is asked again at once without it, or with the number that it names.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

Body = dict[str, Any]
"""A request, ready for JSON."""


@dataclass(frozen=True, slots=True)
class OwnField:
    """A part of requests that a model can do without."""

    name: str
    """In this program."""
    paths: tuple[str, ...] = ()
    """Where it stands in a request, by API, as `reasoning.effort`."""
    keys: tuple[str, ...] = ()
    """Its keys inside messages, which are rendered without them."""
    words: tuple[str, ...] = ()
    """What else a refusal calls it."""
    phrases: tuple[str, ...] = ()
    """What a refusal says of nothing else, wherever it stands."""

    def names(self, sent: Collection[str]) -> list[str]:
        """Return the words by which a refusal may name it, if it was sent."""
        keys = [key for key in self.keys if key in sent]
        is_sent = bool(keys) or any(path in sent for path in self.paths)
        return [*self.paths, *keys, *self.words] if is_sent else []


ANSWER_LIMIT = OwnField(
    "answer limit",
    ("max_tokens", "max_completion_tokens", "max_output_tokens"),
    words=("max_new_tokens", "maxOutputTokens", "maximum tokens"),
)
PICTURES = "pictures"
"""Left out where a model takes none."""
TOOLS_OFF, USAGE, MARKS, OLD_THINKING = "tools off", "usage", "marks", "old thinking"

OWN_FIELDS = (
    ANSWER_LIMIT,
    OwnField(USAGE, ("stream_options",), words=("include_usage",)),
    OwnField("progress", ("return_progress",)),
    OwnField(TOOLS_OFF, ("tool_choice",)),
    OwnField("session", ("prompt_cache_key", "session_id")),
    OwnField(
        "effort", ("reasoning_effort", "reasoning.effort", "output_config"), words=("effort", "reasoning")
    ),
    OwnField("encrypted reasoning", ("include",), words=("encrypted", "reasoning.encrypted_content")),
    # LiteLLM sends `thinking` on as `reasoning.effort` to models that are no Claude.
    OwnField("thinking", ("thinking",), words=("adaptive", "reasoning", "reasoning_effort", "effort")),
    OwnField("shown reasoning", ("reasoning.summary",), words=("reasoning",)),
    OwnField("storage", ("store",)),
    OwnField(MARKS, keys=("cache_control",)),
    OwnField(
        OLD_THINKING,
        keys=("signature", "encrypted_content", "reasoning_details", "reasoning_content", "reasoning"),
        # Of a model behind the same name that is another one now; of a key that has changed.
        phrases=("could not be verified", "items are not persisted", "invalid `signature`"),
    ),
)
"""The first of those that a refusal names at the same place counts."""

_LEAST_LIMIT = 256
"""Tokens. A smaller number in a refusal is a status, an index or the lower end of a range."""
_NUMBER = re.compile(r"(?<![\w.-])(\d[\d,_]{2,})(?![\w-]|\.\d)(\s*\(exclusive\))?")
_INSTEAD = re.compile(r"\buse\W+(max_\w+)", re.IGNORECASE)
_ALLOWED = re.compile(
    r"expected one of|expected:? `|did you mean|\bsupported (params|parameters|fields)\b|allowed:"
)
"""Begins a list of what may be sent."""
_WANTED = re.compile(
    r"\bmissing\b|(is|are) required|must be (passed|provided|present|included|preserved|returned)",
    re.IGNORECASE,
)
"""In a refusal because a field is not there."""


class LeftOut:
    """What one model is not sent, because its server refused it."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """`names` are left out from the start."""
        self.names = set(names)
        self.most: int | None = None
        """Tokens that an answer may have, as a refusal named them."""
        self._limit_name = ""
        """The field for that number, if the server asked for another one."""

    def sends(self, name: str) -> bool:
        return name not in self.names

    def learn(self, message: str, body: Body) -> bool:
        """Remember what these words refuse of a request; False if it is nothing that can be left out."""
        refused = refused_field(message, keys_in(body), self.names)
        if refused is None or (refused.name == "effort" and _names_value(message, body)):
            return False
        if refused is ANSWER_LIMIT and self._adapt_limit(message, body):
            return True
        self.names.add(refused.name)
        return True

    def _adapt_limit(self, message: str, body: Body) -> bool:
        """Rename or lower the limit of answers as the words ask; False if they name neither."""
        name = next(name for name in ANSWER_LIMIT.paths if name in body)
        other = _INSTEAD.search(message)
        if other is not None and other[1] != name and other[1] in ANSWER_LIMIT.paths:
            self._limit_name = other[1]
            return True
        lower = limit_named(message, body[name])
        if lower is None:
            return False
        self.most = lower
        return True

    def trimmed(self, body: Body) -> Body:
        """Return a request without what is left out, and with a limit that the server takes."""
        for own in OWN_FIELDS:
            if own.name in self.names:
                for path in own.paths:
                    _remove(body, path)
        for name in ANSWER_LIMIT.paths:
            if name in body:
                limit = body.pop(name)
                body[self._limit_name or name] = limit if self.most is None else min(limit, self.most)
                break
        return body


def refused_field(message: str, sent: Collection[str], without: Collection[str] = ()) -> OwnField | None:
    """Return the field that a refusal names first, of those that were sent; None if it names none.

    `sent` are the paths and keys of the request, `without` the names of fields left out already.
    """
    if allowed := _ALLOWED.search(message):
        message = message[: allowed.start()]
    if _WANTED.search(message):
        return None
    mentions: list[tuple[int, int, OwnField]] = []
    for own in OWN_FIELDS:
        names = own.names(sent) if own.name not in without else []
        if names and any(phrase in message.lower() for phrase in own.phrases):
            return own
        places = ((_place_of(name, message), -len(name)) for name in names)
        mentions += [(place, length, own) for place, length in places if place is not None]
    return min(mentions, key=lambda mention: mention[:2])[2] if mentions else None


def _place_of(name: str, message: str) -> int | None:
    """Return where a name stands as a whole word: `max_tokens` is not in `max_tokens_exceeded`."""
    found_at = re.search(rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9_])", message, re.IGNORECASE)
    return None if found_at is None else found_at.start()


def limit_named(message: str, sent: int) -> int | None:
    """Return the largest number of tokens in a refusal that is below the limit sent."""
    numbers = [
        int(re.sub(r"\D", "", number)) - bool(exclusive) for number, exclusive in _NUMBER.findall(message)
    ]
    return max((number for number in numbers if _LEAST_LIMIT <= number < sent), default=None)


def keys_in(body: Body) -> set[str]:
    """Return the paths of a request's own fields and the keys inside its messages.

    What tools and calls are made of counts for nothing.
    """
    paths = {name for name in body if name != "reasoning"}
    for name, value in body.items():
        if isinstance(value, dict):
            paths |= {f"{name}.{key}" for key in value}
    return paths | set(_keys_within([body.get("messages"), body.get("input"), body.get("system")]))


def _keys_within(value: object) -> Iterable[str]:
    match value:
        case dict():
            yield from value
            for key, item in value.items():
                if key != "input":  # of a call
                    yield from _keys_within(item)
        case list():
            for item in value:
                yield from _keys_within(item)


def _names_value(message: str, body: Body) -> bool:
    """Return whether the words are about the effort that the user set, not about the field."""
    nested = body.get("output_config") or body.get("reasoning") or {}
    effort = body.get("reasoning_effort") or nested.get("effort")
    return bool(effort) and re.search(rf"['\"`]{re.escape(str(effort))}['\"`]", message) is not None


def _remove(body: Body, path: str) -> None:
    """Remove a field; of a nested one, its parent too where nothing else is in it."""
    name, _, key = path.partition(".")
    if not key:
        body.pop(name, None)
    elif isinstance(body.get(name), dict):
        body[name] = {other: value for other, value in body[name].items() if other != key}
        if not body[name]:
            del body[name]
