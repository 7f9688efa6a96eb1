"""Optional fields that Foldline adds to requests, and how servers reject them.

After a rejection, the request is sent again at once, without the field or with the limit that the rejection
states.
"""

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from foldline.json_text import JsonObject
from foldline.text.patterns import lazy_pattern

Body = JsonObject
"""A request body, ready to be encoded as JSON."""


@dataclass(frozen=True, slots=True)
class OwnField:
    """An optional request field."""

    name: str
    """Internal name of the field."""
    paths: tuple[str, ...] = ()
    """Paths of the field in request bodies of the various APIs, such as `reasoning.effort`."""
    keys: tuple[str, ...] = ()
    """Keys under which the field appears inside messages.

    Messages can be rendered without them.
    """
    words: tuple[str, ...] = ()
    """Other words with which servers name the field in rejections."""
    phrases: tuple[str, ...] = ()
    """Phrases that occur only in rejections of this field."""

    def names(self, body: Body, keys: str) -> list[str]:
        """Return the words with which a rejection may name the field.

        Returns an empty list if the field was not sent.

        Args:
            keys: the request's messages as JSON.
        """
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
"""Pseudo-field for a request's images, so that they can be dropped like any optional field.

They are left out if the model accepts no images.
"""
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
    OwnField(
        "encrypted reasoning",
        ("include",),
        words=("encrypted", "reasoning.encrypted_content"),
    ),
    # LiteLLM passes `thinking` on as `reasoning.effort` to models other than Claude.
    OwnField(
        "thinking",
        ("thinking",),
        words=("adaptive", "reasoning", "reasoning_effort", "effort"),
    ),
    OwnField("shown reasoning", ("reasoning.summary",), words=("reasoning",)),
    OwnField("storage", ("store",)),
    OwnField(MARKS, keys=("cache_control",)),
    OwnField(
        OLD_THINKING,
        keys=(
            "signature",
            "encrypted_content",
            "reasoning_details",
            "reasoning_content",
            "reasoning",
        ),
        # The reasoning belongs to another model that had the same name, or to a key that has changed.
        phrases=(
            "could not be verified",
            "items are not persisted",
            "invalid `signature`",
        ),
    ),
)
"""All optional fields.

If a word in an error response matches several fields, the first one is used.
"""

_LEAST_LIMIT = 256
"""Minimum number in a rejection that is taken as a token limit.

Smaller numbers are statuses, indices, or lower ends of ranges.
"""
_NUMBER = lazy_pattern(r"(?<![\w.-])(\d[\d,_]{2,12})(?![\w-]|\.\d)(\s*\(exclusive\))?")
_INSTEAD = lazy_pattern(r"\buse\W+(max_\w+)", re.IGNORECASE)
_ALLOWED = lazy_pattern(
    r"expected one of|expected:? `|did you mean|\bsupported (params|parameters|fields)\b|allowed:"
)
"""Matches the start of a list of allowed fields or values in a rejection."""
_WANTED = lazy_pattern(
    r"\bmissing\b|(is|are) required|must be (passed|provided|present|included|preserved|returned)",
    re.IGNORECASE,
)
"""Matches a rejection that complains about a missing field."""


class LeftOut:
    """The fields that a model's server has rejected."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """
        Args:
            names: names of fields that are left out from the start.
        """
        self.names = set(names)
        self.most: int | None = None
        """Maximum size of an answer, in tokens, as stated in a rejection."""
        self._limit_name = ""
        """Name of the field for the answer's limit, if the server requires an unusual name."""

    def sends(self, name: str) -> bool:
        return name not in self.names

    def learn(self, message: str, body: Body) -> bool:
        """Leave out the field that an error message rejects, from now on.

        Returns whether the request can be sent again.
        """
        refused = refused_field(message, body, self.names)
        if refused is None or (
            refused.name == EFFORT and _names_value(message, refused, body)
        ):
            return False
        if refused is ANSWER_LIMIT and self._adapt_limit(message, body):
            return True
        self.names.add(refused.name)
        return True

    def _adapt_limit(self, message: str, body: Body) -> bool:
        """Rename or lower the answer's token limit, as an error message requires.

        Returns whether anything changed.
        """
        name = next(name for name in ANSWER_LIMIT.paths if name in body)
        instead = _INSTEAD.search(message)
        new_name = instead[1] if instead else ""
        if new_name != name and new_name in ANSWER_LIMIT.paths and not self._limit_name:
            self._limit_name = new_name
            return True
        lower = limit_named(message, body[name])
        if lower is None:
            return False
        self.most = lower
        return True

    def trimmed(self, body: Body) -> Body:
        """Return a request without its rejected fields, and with a limit that the server accepts."""
        for own in OWN_FIELDS:
            if own.name in self.names:
                for path in own.paths:
                    _remove(body, path)
        for name in ANSWER_LIMIT.paths:
            if name in body:
                limit = body.pop(name)
                body[self._limit_name or name] = (
                    limit if self.most is None else min(limit, self.most)
                )
                break
        return body


def refused_field(
    message: str, body: Body, without: Collection[str] = ()
) -> OwnField | None:
    """Return the first sent field that a rejection names, if there is one.

    Args:
        without: names of fields that are already left out.
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
        mentions += [
            (place, length, own) for place, length in places if place is not None
        ]
    return min(mentions, key=lambda mention: mention[:2])[2] if mentions else None


def _place_of(name: str, message: str) -> int | None:
    """Find a name in a message as a whole word, and return its position.

    For example, `max_tokens` is not a whole word in `max_tokens_exceeded`.
    """
    found_at = re.search(
        rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9_])", message, re.IGNORECASE
    )
    return None if found_at is None else found_at.start()


def limit_named(message: str, sent: int) -> int | None:
    """Return the largest token limit in a rejection that is lower than the limit sent."""
    numbers = [
        int(re.sub(r"\D", "", number)) - bool(exclusive)
        for number, exclusive in _NUMBER.findall(message)
    ]
    return max(
        (number for number in numbers if _LEAST_LIMIT <= number < sent), default=None
    )


def _value_at(body: Body, path: str) -> object:
    """Return the value at a path like `reasoning.effort`, if any."""
    name, _, key = path.partition(".")
    value = body.get(name)
    return value.get(key) if key and isinstance(value, dict) else value


def _keys_within(body: Body) -> str:
    """Return a request's messages as JSON, in which `":` occurs only after keys."""
    return json.dumps([body.get("messages"), body.get("input"), body.get("system")])


def _names_value(message: str, own: OwnField, body: Body) -> bool:
    """Return whether a message rejects the value that the user set, not the field itself."""
    values = [
        value for path in own.paths if isinstance(value := _value_at(body, path), str)
    ]
    return any(
        re.search(rf"['\"`]{re.escape(value)}['\"`]", message) for value in values
    )


def _remove(body: Body, path: str) -> None:
    """Remove a field.

    Its parent is also removed if it becomes empty.
    """
    name, _, key = path.partition(".")
    nested = body.get(name)
    if key and isinstance(nested, dict):
        body[name] = {other: value for other, value in nested.items() if other != key}
    if not key or not body.get(name, True):
        body.pop(name, None)
