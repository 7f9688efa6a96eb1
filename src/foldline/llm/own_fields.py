"""What Foldline adds to requests by itself, and what one model is not sent any more.

A server that refuses such a field is asked again at once without it, or with the number that it names.
"""

import json
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

    def names(self, body: Body, keys: str) -> list[str]:
        """Return the words by which a refusal may name it, if it was sent."""
        sent = [key for key in self.keys if f'"{key}":' in keys]
        if sent or any(_value_at(body, path) is not None for path in self.paths):
            return [*self.paths, *sent, *self.words]
        return []


ANSWER_LIMIT = OwnField(
    "answer limit",
    ("max_tokens", "max_completion_tokens", "max_output_tokens"),
    words=("max_new_tokens", "maxOutputTokens", "maximum tokens"),
)
PICTURES = "pictures"
"""Left out where a model takes none."""
EFFORT = "effort"
MARKS = "marks"
OLD_THINKING = "old thinking"
PROGRESS = "progress"
TOOLS_OFF = "tools off"
USAGE = "usage"

OWN_FIELDS = (
    ANSWER_LIMIT,
    OwnField(USAGE, ("stream_options",), words=("include_usage",)),
    OwnField(PROGRESS, ("return_progress",)),
    OwnField(TOOLS_OFF, ("tool_choice",)),
    OwnField("session", ("prompt_cache_key", "session_id")),
    OwnField(
        EFFORT,
        ("reasoning_effort", "reasoning.effort", "output_config.effort"),
        words=("output_config", "effort", "reasoning"),
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
_NUMBER = re.compile(r"(?<![\w.-])(\d[\d,_]{2,12})(?![\w-]|\.\d)(\s*\(exclusive\))?")
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
        refused = refused_field(message, body, self.names)
        if refused is None or (refused.name == EFFORT and _names_value(message, refused, body)):
            return False
        if refused is ANSWER_LIMIT and self._adapt_limit(message, body):
            return True
        self.names.add(refused.name)
        return True

    def _adapt_limit(self, message: str, body: Body) -> bool:
        """Rename or lower the limit of answers as the words ask; False if they name neither."""
        name = next(name for name in ANSWER_LIMIT.paths if name in body)
        instead = _INSTEAD.search(message)
        wanted = instead[1] if instead else ""
        if wanted != name and wanted in ANSWER_LIMIT.paths and not self._limit_name:
            self._limit_name = wanted
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


def refused_field(message: str, body: Body, without: Collection[str] = ()) -> OwnField | None:
    """Return the field that a refusal names first, of those that were sent; None if it names none.

    `without` are the names of fields left out already.
    """
    if allowed := _ALLOWED.search(message):
        message = message[: allowed.start()]
    if _WANTED.search(message):
        return None
    keys = _keys_within(body)
    mentions: list[tuple[int, int, OwnField]] = []
    for own in OWN_FIELDS:
        names = own.names(body, keys) if own.name not in without else []
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


def _value_at(body: Body, path: str) -> object:
    """Return what a request has at a path such as `reasoning.effort`; None if nothing."""
    name, _, key = path.partition(".")
    value = body.get(name)
    return value.get(key) if key and isinstance(value, dict) else value


def _keys_within(body: Body) -> str:
    """Return the messages of a request as JSON, in which a key cannot be mistaken for a text."""
    return json.dumps([body.get("messages"), body.get("input"), body.get("system")])


def _names_value(message: str, own: OwnField, body: Body) -> bool:
    """Return whether the words are about the value that the user set, not about the field."""
    values = [value for path in own.paths if isinstance(value := _value_at(body, path), str)]
    return any(re.search(rf"['\"`]{re.escape(value)}['\"`]", message) for value in values)


def _remove(body: Body, path: str) -> None:
    """Remove a field; with a nested one, its parent too, if nothing else is in it."""
    name, _, key = path.partition(".")
    nested = body.get(name)
    if key and isinstance(nested, dict):
        body[name] = {other: value for other, value in nested.items() if other != key}
    if not key or not body.get(name, True):
        body.pop(name, None)
