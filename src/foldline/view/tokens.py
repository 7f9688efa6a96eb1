"""Estimates of the number of tokens in text, without a tokenizer.

The estimates are calibrated with reported usage, and only cover what was added after the provider's last
report. No vocabulary is included, because compared with real usage, the exact BPE of another vendor was no
better than these weights (docs/design/budget.md).
"""

import math
import string
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from foldline.protocol import (
    BaseMessage,
    CheckpointPart,
    ImagePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
)
from foldline.text.patterns import lazy_pattern

_CJK = lazy_pattern(r"[\u4e00-\u9fff\u3040-\u30ff\uac00-\ud7af]+")
_BRAHMIC = lazy_pattern(r"[\u0900-\u109f\u1780-\u17ff]+")
_SHORTER_BRAHMIC = lazy_pattern(r"[\u0900-\u097f\u0e00-\u0e7f]+")  # Devanagari and Thai


class Scripts(NamedTuple):
    """Numbers of characters for which some models need more tokens than estimated."""

    cjk: int = 0
    """Number of ideographs, kana and Hangul characters."""
    brahmic: int = 0
    """Number of characters in Indic scripts, Thai and related scripts.

    Each character counts as two, except in Devanagari and Thai.
    """

    def plus(self, other: "Scripts") -> "Scripts":
        return Scripts(self.cjk + other.cjk, self.brahmic + other.brahmic)

    def minus(self, other: "Scripts") -> "Scripts":
        """Subtract other counts. Negative results become zero."""
        return Scripts(
            max(0, self.cjk - other.cjk), max(0, self.brahmic - other.brahmic)
        )


def estimate_text_tokens(text: str) -> int:
    """Estimate the number of tokens in text by a simple rule.

    Each ideograph, kana or Hangul character counts as one token. Of all other characters, every four count as
    one token.
    """
    cjk = scripts_of(text).cjk
    return cjk + (len(text) - cjk) // 4


def scripts_of(text: str) -> Scripts:
    """Count the characters in text that `Scripts` distinguishes."""
    if text.isascii():
        return Scripts()
    text = _without_ascii(text.encode("utf-8", "surrogatepass"))
    no_cjk = _CJK.sub("", text)
    no_short_brahmic = _SHORTER_BRAHMIC.sub("", no_cjk)
    others = _BRAHMIC.sub("", no_short_brahmic)
    return Scripts(
        len(text) - len(no_cjk), len(no_cjk) + len(no_short_brahmic) - 2 * len(others)
    )


def _without_ascii(encoded: bytes) -> str:
    return encoded.translate(None, _ASCII).decode("utf-8", "surrogatepass")


# Tokens per character by script, fitted to o200k on prose, code, JSON and CJK text (docs/design/budget.md).
_LETTER = 0.218
_DIGIT = 0.768
_PUNCTUATION = 0.559
_SPACE = 0.148
_HAN = 0.769
_KANA = 0.708
_HANGUL = 0.697
_CJK_PUNCTUATION = 0.863
_OTHER = 0.455
_CYRILLIC = 0.30
"""Tokens per Cyrillic character.

Measured values are 0.26 (Qwen 3.6) to 0.31 (DeepSeek V4) for Russian, and 0.34 to 0.40 for Ukrainian.
"""
_BASE64 = 0.72
"""Tokens per character of base64 data.

Measured values are 0.68 (o200k), 0.70 (DeepSeek V4) and 0.74 (Qwen 3.6).
"""
_HEX = 0.62
"""Tokens per character of hexadecimal data. Measured values are 0.58, 0.59 and 0.88."""
_EMOJI = 2.0
"""Tokens per code point of an emoji. Measured values are 1.8 (o200k) to 2.4 (cl100k)."""
_SYMBOL = 1.0
"""Tokens per arrow or box-drawing character. Measured values are 0.9 to 1.1."""

_LETTERS = string.ascii_letters.encode()
_DIGITS = string.digits.encode()
_SPACES = bytes(range(33)) + b"\x7f"
_ASCII, _BEYOND_ASCII = bytes(range(128)), bytes(range(128, 256))
_SCRIPTS = (
    (lazy_pattern(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+"), _HAN),
    (lazy_pattern(r"[\u3040-\u30ff]+"), _KANA),
    (lazy_pattern(r"[\uac00-\ud7af\u1100-\u11ff]+"), _HANGUL),
    (lazy_pattern(r"[\u3000-\u303f\uff00-\uffef]+"), _CJK_PUNCTUATION),
    (lazy_pattern(r"[\U0001f000-\U0001faff\u2600-\u27bf\ufe0f\u200d]+"), _EMOJI),
    (lazy_pattern(r"[\u2190-\u25ff]+"), _SYMBOL),
    (lazy_pattern(r"[\u0400-\u052f]+"), _CYRILLIC),
)

MESSAGE_OVERHEAD = 4
"""Number of tokens that a message takes in addition to its text, for role and delimiters."""
CALL_OVERHEAD = 8
CHECKPOINT_TOKENS = 16
"""Size of the line that names a checkpoint for the model, in tokens."""
IMAGE_TOKENS = 1200
"""Number of tokens assumed for an image of unknown size."""
IMAGE_CAP = 1600
_PIXELS_PER_TOKEN = 750
"""Pixels per token according to Anthropic's published rule.

OpenAI's tiles give about the same result.
"""


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens in text, without calibration.

    Decisions are based on this estimate. It takes about 5 ns per character.
    """
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) == len(text):
        return math.ceil(_ascii_tokens(encoded))
    tokens = _ascii_tokens(encoded.translate(None, _BEYOND_ASCII))
    others = _without_ascii(encoded)
    for script, tokens_per_character in _SCRIPTS:
        if not others:
            break
        remaining = script.sub("", others)
        tokens += (len(others) - len(remaining)) * tokens_per_character
        others = remaining
    return math.ceil(tokens + len(others) * _OTHER)


def _ascii_tokens(text: bytes) -> float:
    no_letters = text.translate(None, _LETTERS)
    no_digits = no_letters.translate(None, _DIGITS)
    punctuation = len(no_digits.translate(None, _SPACES))
    digits = len(no_letters) - len(no_digits)
    tokens = (
        (len(text) - len(no_letters)) * _LETTER
        + digits * _DIGIT
        + (len(no_digits) - punctuation) * _SPACE
        + punctuation * _PUNCTUATION
    )
    if digits < max(len(_MANY_DIGITS), len(text) // 128):
        return tokens
    # Encoded data has many digits in a row once letters are removed; almost no other text has. Looking for
    # these digits first is much faster than looking for runs in the full text.
    if _MANY_DIGITS in no_letters.translate(_DIGIT_MARKS, _BASE64_SIGNS):
        tokens += _encoded_extra(text)
    return tokens


_BASE64_SIGNS = b"+/-_"
_MANY_DIGITS = b"0" * 12
"""If text without its letters has this many digits in a row, it probably contains encoded data.

A line of base64 has 10 to 14 such digits, and a hexadecimal SHA-1 has 25. A date with a time has 8 and 6.
"""
_DIGIT_MARKS = bytes(ord("0" if byte in _DIGITS else " ") for byte in range(256))
_RUN_MARKS = bytes(
    ord("x" if byte in _LETTERS + _DIGITS + _BASE64_SIGNS else " ")
    for byte in range(256)
)
_SHORTEST_RUN = b"x" * 32
_SAMPLE = 256
"""Number of bytes examined in each run."""
_KINDS = bytes.maketrans(
    b"123456789abcdeABCDE"
    + string.ascii_lowercase[6:].encode()
    + string.ascii_uppercase[6:].encode(),
    b"000000000fffffFFFFF" + b"z" * 20 + b"Z" * 20,
)
"""Maps digits, letters up to f, and other letters, by case, to one byte per kind."""
_BASE64_PLAIN = (52 * _LETTER + 10 * _DIGIT + 2 * _PUNCTUATION) / 64
_HEX_PLAIN = (6 * _LETTER + 10 * _DIGIT) / 16
"""Tokens per character of random base64 or hexadecimal data.

The values follow from the weights for letters and digits.
"""


def _encoded_extra(text: bytes) -> float:
    """Return how many more tokens base64 and hexadecimal data takes.

    The number is added to the tokens for letters and digits.
    """
    marked = text.translate(_RUN_MARKS) + b" "
    tokens = 0.0
    end = 0
    while (start := marked.find(_SHORTEST_RUN, end)) >= 0:
        end = marked.index(b" ", start)
        tokens += (end - start) * _extra_per_character(
            text[start : min(end, start + _SAMPLE)]
        )
    return tokens


def _extra_per_character(run: bytes) -> float:
    """Return how many more tokens a run takes per character.

    Returns 0 if the run does not look like random data.
    """
    kinds = run.translate(_KINDS)
    length = len(run)
    digits = kinds.count(b"0")
    if 16 * digits < length:
        return 0.0
    letters_to_f = kinds.count(b"f") + kinds.count(b"F")
    if letters_to_f and digits + letters_to_f + run.count(b"-") == length:
        return _HEX - _HEX_PLAIN
    capitals = kinds.count(b"Z") + kinds.count(b"F")
    if 6 * min(capitals, length - digits - capitals) < length:
        return 0.0
    return _BASE64 - _BASE64_PLAIN


def _part_tokens(part: Part) -> int:
    match part:
        case TextPart():
            return estimate_tokens(part.text)
        case ThinkingPart():
            return 0  # counted separately by `thinking_tokens`, because it is not sent back to most servers
        case ImagePart():
            return image_tokens(part)
        case CheckpointPart():
            return CHECKPOINT_TOKENS
        case ToolCallPart():
            return call_tokens(part)


def call_tokens(call: ToolCallPart) -> int:
    """Estimate the size of a tool call, in tokens."""
    return CALL_OVERHEAD + estimate_tokens(call.name) + estimate_tokens(call.arguments)


def thinking_tokens(message: BaseMessage) -> int:
    """Estimate the size of a message's reasoning, in tokens.

    This is needed for servers to which the reasoning is sent back.
    """
    return sum(
        estimate_tokens(part.text)
        for part in message.parts
        if isinstance(part, ThinkingPart)
    )


def image_tokens(image: ImagePart) -> int:
    """Estimate the size of an image in tokens, based on its pixels.

    There is a maximum.
    """
    if not image.width or not image.height:
        return IMAGE_TOKENS
    return min(IMAGE_CAP, math.ceil(image.width * image.height / _PIXELS_PER_TOKEN))


def message_tokens(message: BaseMessage) -> int:
    """Estimate the size of a message as it is sent, in tokens without calibration."""
    tokens = MESSAGE_OVERHEAD + sum(_part_tokens(part) for part in message.parts)
    return tokens + CALL_OVERHEAD if isinstance(message, ToolResultMessage) else tokens


def scripts_in(*messages: BaseMessage) -> Scripts:
    """Count the characters in messages that `Scripts` distinguishes, ignoring reasoning."""
    texts = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, TextPart):
                texts.append(part.text)
            elif isinstance(part, ToolCallPart):
                texts.append(part.arguments)
    return scripts_of("".join(texts))


START = 1.3
"""The starting ratio of real to estimated tokens for a model with an unknown name.

For Claude 4.5, real usage implied ratios of 1.21 to 1.32.
"""
_START_OTHERS = 1.05
_START_GEMMA = 1.15
_START_CLAUDE = 1.3
_START_NEWER_CLAUDE = 1.55
"""The starting ratio for Claude 4.7 and later, which use a different vocabulary."""
_CLAUDE = lazy_pattern(
    r"claude\D{0,20}?(\d{1,2})(?!\d)(?:[.-](\d{1,2})(?!\d))?|claude|\b(?:opus|sonnet|haiku)\b"
)
LOWEST = 0.7
HIGHEST = 2.0
"""Lowest and highest value of a learnt ratio. An observed ratio beyond these limits is clamped."""
MARGIN = 1.05
"""Factor by which estimates for decisions are increased, because learnt estimates were up to 5 % off."""
_NEWEST_SHARE = 0.3
"""Weight, from 0 to 1, of the newest observation in the moving average of the ratio."""
_TRUNCATED_BELOW = 0.7
"""If the reported usage is below this fraction of the calibrated estimate, the server truncated the request.
"""
LEAST_GROWTH = 2_000
"""Minimum growth between two reported usages, in estimated tokens, from which the ratio is learnt."""
_LIGHTEST_ANSWER = 0.7
_HEAVIEST_ANSWER = 3.0
"""Lowest and highest plausible ratio of an answer's reported tokens to its estimated tokens.

Measured values are 0.71 (gpt-5.6) to 2.8 (short calls).
"""
_FRAME = 8
"""Size of a message's frame in tokens, which is most of the estimate for a short answer."""


@lru_cache(maxsize=64)
def start_ratio(model: str | None) -> float:
    """Return the ratio for a model's family, used before any usage is known."""
    if not model:
        return START
    name = model.lower()
    if "gemma" in name:
        return _START_GEMMA
    claude = _CLAUDE.search(name)
    if claude is None:
        return _START_OTHERS
    version = int(claude[1] or 99), int(claude[2] or 0)
    return _START_CLAUDE if version < (4, 7) else _START_NEWER_CLAUDE


_BRAHMIC_FLOORS = (
    (lazy_pattern(r"gpt-?(?:4o|4\.1|[5-9]|oss)|\bo[1-9]\b|gemini|gemma"), 0.0),
    (
        lazy_pattern(
            r"qwen-?(?:3\.[5-9]|[4-9](?![\db]))|devstral|magistral|ministral|mistral-nemo"
        ),
        0.55,
    ),
    # A distilled model has the vocabulary of another family.
    (lazy_pattern(r"deepseek(?!.*distill)"), 0.65),
    (_CLAUDE, 0.9),
)
_BRAHMIC_FLOOR = 1.1
"""Minimum number of tokens per Brahmic character for other model families (docs/design/budget.md)."""


@lru_cache(maxsize=64)
def brahmic_floor(model: str | None) -> float:
    """Return the minimum number of tokens per Brahmic character for the model's family."""
    name = (model or "").lower()
    return next(
        (floor for family, floor in _BRAHMIC_FLOORS if family.search(name)),
        _BRAHMIC_FLOOR,
    )


def fits_text(reported: int, estimated: int) -> bool:
    """Return whether reported output tokens are plausible for this estimate.

    A value that is too low was counted before the stream ended. A value that is too high includes reasoning
    that was not reported separately.
    """
    if not 0 < reported <= _HEAVIEST_ANSWER * (estimated + _FRAME):
        return False
    return reported + _FRAME >= _LIGHTEST_ANSWER * estimated


@dataclass(frozen=True, slots=True)
class Calibration:
    """The ratio of reported to estimated input tokens, by model.

    Immutable: `learn` returns a new object.
    """

    ratios: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    doubted: frozenset[str] = frozenset()
    """Models whose server may be truncating requests, because its newest reported usage was too small."""

    def ratio(self, model: str | None) -> float:
        learnt_ratio = self.ratios.get(model or "")
        if learnt_ratio is not None:
            return learnt_ratio
        start = start_ratio(model)
        return max(start, START) if model in self.doubted else start

    def doubt(self, model: str, *, doubted: bool) -> "Calibration":
        """Mark a model after its reported usage was too small, or remove the mark.

        Estimates for a marked model are high until its ratio has been learnt.
        """
        if doubted:
            return replace(self, doubted=self.doubted | {model})
        return replace(self, doubted=self.doubted - {model})

    def scale(self, model: str | None) -> float:
        """Return the factor applied to an estimate before a decision: the ratio times the margin."""
        return self.ratio(model) * MARGIN

    def weigh(self, model: str | None, tokens: float, scripts: Scripts) -> float:
        """Convert an estimate to the number of tokens on which decisions are based.

        Even if the ratio learnt from English text is low, an ideograph, kana or Hangul character counts as at
        least one token, and a Brahmic character as at least `brahmic_floor`.
        """
        scale = self.scale(model)
        cjk_extra = scripts.cjk * max(0.0, 1 - min(_HAN, _KANA, _HANGUL) * scale)
        brahmic_extra = scripts.brahmic * max(
            0.0, brahmic_floor(model) - _OTHER * scale
        )
        return tokens * scale + cjk_extra + brahmic_extra

    def least(self, model: str, estimated: float) -> float:
        """Return the smallest plausible reported size of a full request, in tokens.

        If a server reports less, it may have truncated the request silently.
        """
        return _TRUNCATED_BELOW * self.ratios.get(model, LOWEST) * estimated

    def learn(self, model: str, estimated: int, reported: int) -> "Calibration":
        """Learn from one more request.

        Args:
            estimated: estimated number of input tokens, without calibration.
            reported: reported number of input tokens.
        """
        if reported < self.least(model, estimated):
            return self
        observed = min(HIGHEST, max(LOWEST, reported / estimated))
        old_ratio = self.ratios.get(model)
        ratio = (
            observed
            if old_ratio is None
            else old_ratio + _NEWEST_SHARE * (observed - old_ratio)
        )
        return replace(self, ratios=MappingProxyType({**self.ratios, model: ratio}))
