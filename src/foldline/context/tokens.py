"""How long a text is, in tokens, without a tokenizer.

Estimates only fill the gap behind the provider's reported usage. No vocabulary is shipped: against real
usage an exact BPE of another vendor was no better than these weights (docs/design/budget.md).
"""

import math
import re
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

_CJK = re.compile(r"[\u4e00-\u9fff\u3040-\u30ff\uac00-\ud7af]+")
_BRAHMIC = re.compile(r"[\u0900-\u109f\u1780-\u17ff]+")
_SHORTER_BRAHMIC = re.compile(r"[\u0900-\u097f\u0e00-\u0e7f]+")  # Devanagari and Thai


class Scripts(NamedTuple):
    """Characters that some models count more tokens for than the weights of scripts say."""

    cjk: int = 0
    """Ideographs, kana and Hangul."""
    brahmic: int = 0
    """The scripts of India, Thai and their kin. All but Devanagari and Thai count twice."""

    def plus(self, other: "Scripts") -> "Scripts":
        return Scripts(self.cjk + other.cjk, self.brahmic + other.brahmic)

    def minus(self, other: "Scripts") -> "Scripts":
        """The difference, not below zero."""
        return Scripts(max(0, self.cjk - other.cjk), max(0, self.brahmic - other.brahmic))


def estimate_text_tokens(text: str) -> int:
    """The plain rule: ideographs, kana and Hangul 1 each, the rest 1 per 4, down: `hello world` is 2."""
    cjk = scripts_of(text).cjk
    return cjk + (len(text) - cjk) // 4


def scripts_of(text: str) -> Scripts:
    """Count the characters of these scripts in a text."""
    if text.isascii():
        return Scripts()
    beyond = text.encode("utf-8", "surrogatepass").translate(None, _ASCII).decode("utf-8", "surrogatepass")
    others = _CJK.sub("", beyond)
    longer = _SHORTER_BRAHMIC.sub("", others)
    rest = _BRAHMIC.sub("", longer)
    return Scripts(len(beyond) - len(others), len(others) + len(longer) - 2 * len(rest))


# Tokens per character by script, fitted to o200k on prose, code, JSON and CJK text (docs/design/budget.md).
_LETTER, _DIGIT, _PUNCTUATION, _SPACE = 0.218, 0.768, 0.559, 0.148
_HAN, _KANA, _HANGUL, _CJK_PUNCTUATION, _OTHER = 0.769, 0.708, 0.697, 0.863, 0.455
_CYRILLIC = 0.30
"""Russian took 0.26 (Qwen 3.6) to 0.31 (DeepSeek V4), Ukrainian 0.34 to 0.40."""
_BASE64, _HEX = 0.72, 0.62
"""Base64 took 0.68 (o200k), 0.70 (DeepSeek V4) and 0.74 (Qwen 3.6), hexadecimal 0.58, 0.59 and 0.88."""
_EMOJI, _SYMBOL = 2.0, 1.0
"""A code point of an emoji took 1.8 (o200k) to 2.4 tokens (cl100k), an arrow or a box line 0.9 to 1.1."""

_LETTERS = string.ascii_letters.encode()
_DIGITS = string.digits.encode()
_SPACES = bytes(range(33)) + b"\x7f"
_ASCII, _BEYOND_ASCII = bytes(range(128)), bytes(range(128, 256))
_SCRIPTS = (
    (re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+"), _HAN),
    (re.compile(r"[\u3040-\u30ff]+"), _KANA),
    (re.compile(r"[\uac00-\ud7af\u1100-\u11ff]+"), _HANGUL),
    (re.compile(r"[\u3000-\u303f\uff00-\uffef]+"), _CJK_PUNCTUATION),
    (re.compile(r"[\U0001f000-\U0001faff\u2600-\u27bf\ufe0f\u200d]+"), _EMOJI),
    (re.compile(r"[\u2190-\u25ff]+"), _SYMBOL),
    (re.compile(r"[\u0400-\u052f]+"), _CYRILLIC),
)

MESSAGE_OVERHEAD = 4
"""Tokens a message costs beyond its text: role and delimiters."""
CALL_OVERHEAD = 8
CHECKPOINT_TOKENS = 16
"""The marked line that names a checkpoint for the model."""
IMAGE_TOKENS = 1200
"""An image of unknown size."""
IMAGE_CAP = 1600
_PIXELS_PER_TOKEN = 750
"""Anthropic's published rule; OpenAI's tiles come to about the same."""


def estimate_tokens(text: str) -> int:
    """The finer estimate that decisions use, before calibration. Linear and fast: about 5 ns a character."""
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) == len(text):
        return math.ceil(_ascii_weight(encoded))
    weight = _ascii_weight(encoded.translate(None, _BEYOND_ASCII))
    rest = encoded.translate(None, _ASCII).decode("utf-8", "surrogatepass")
    for script, tokens_per_character in _SCRIPTS:
        if not rest:
            break
        remaining = script.sub("", rest)
        weight += (len(rest) - len(remaining)) * tokens_per_character
        rest = remaining
    return math.ceil(weight + len(rest) * _OTHER)


def _ascii_weight(text: bytes) -> float:
    no_letters = text.translate(None, _LETTERS)
    no_digits = no_letters.translate(None, _DIGITS)
    punctuation = len(no_digits.translate(None, _SPACES))
    digits = len(no_letters) - len(no_digits)
    weight = (
        (len(text) - len(no_letters)) * _LETTER
        + digits * _DIGIT
        + (len(no_digits) - punctuation) * _SPACE
        + punctuation * _PUNCTUATION
    )
    if digits < max(len(_MANY_DIGITS), len(text) // 128):
        return weight
    # Encoded data has many digits in a row once letters are left out; nearly no other text has. Looking for
    # these in what is left is much faster than looking for runs in all of it.
    if _MANY_DIGITS in no_letters.translate(_DIGIT_MARKS, _BASE64_SIGNS):
        weight += _encoded_weight(text)
    return weight


_BASE64_SIGNS = b"+/-_"
_MANY_DIGITS = b"0" * 12
"""A line of base64 has 10 to 14 digits, a SHA-1 in hexadecimal 25; a date and its time have 8 and 6."""
_DIGIT_MARKS = bytes(ord("0" if byte in _DIGITS else " ") for byte in range(256))
_RUN_MARKS = bytes(ord("x" if byte in _LETTERS + _DIGITS + _BASE64_SIGNS else " ") for byte in range(256))
_SHORTEST_RUN = b"x" * 32
_LOOKED_AT = 256
"""Bytes of a run that tell what it is."""
_KINDS = bytes.maketrans(
    b"123456789abcdeABCDE" + string.ascii_lowercase[6:].encode() + string.ascii_uppercase[6:].encode(),
    b"000000000fffffFFFFF" + b"z" * 20 + b"Z" * 20,
)
"""Digits, letters up to f and other letters, small and capital, as one byte of each kind."""
_BASE64_PLAIN = (52 * _LETTER + 10 * _DIGIT + 2 * _PUNCTUATION) / 64
_HEX_PLAIN = (6 * _LETTER + 10 * _DIGIT) / 16
"""What a character of random data weighs by the weights of scripts."""


def _encoded_weight(text: bytes) -> float:
    """What base64 and hexadecimal in a text weigh beyond their letters and digits."""
    marked = text.translate(_RUN_MARKS) + b" "
    weight, end = 0.0, 0
    while (start := marked.find(_SHORTEST_RUN, end)) >= 0:
        end = marked.index(b" ", start)
        weight += (end - start) * _beyond_plain(text[start : min(end, start + _LOOKED_AT)])
    return weight


def _beyond_plain(run: bytes) -> float:
    """By how much a character of a run weighs more, if it has as many digits and letters as random data."""
    kinds, length = run.translate(_KINDS), len(run)
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
            return 0  # counted by itself, `thinking_tokens`: most servers do not get it back
        case ImagePart():
            return image_tokens(part)
        case CheckpointPart():
            return CHECKPOINT_TOKENS
        case ToolCallPart():
            return call_tokens(part)


def call_tokens(call: ToolCallPart) -> int:
    """Estimate of one tool call."""
    return CALL_OVERHEAD + estimate_tokens(call.name) + estimate_tokens(call.arguments)


def thinking_tokens(message: BaseMessage) -> int:
    """Estimate of a message's reasoning, for servers that want it back."""
    return sum(estimate_tokens(part.text) for part in message.parts if isinstance(part, ThinkingPart))


def image_tokens(image: ImagePart) -> int:
    """Tokens of an image by its size in pixels, capped; 1200 where the size is unknown."""
    if not image.width or not image.height:
        return IMAGE_TOKENS
    return min(IMAGE_CAP, math.ceil(image.width * image.height / _PIXELS_PER_TOKEN))


def message_tokens(message: BaseMessage) -> int:
    """Estimate of one message as it is sent, before calibration. Call names, arguments and images count."""
    tokens = MESSAGE_OVERHEAD + sum(_part_tokens(part) for part in message.parts)
    return tokens + CALL_OVERHEAD if isinstance(message, ToolResultMessage) else tokens


def scripts_in(*messages: BaseMessage) -> Scripts:
    """Count the characters of these scripts that messages send; their reasoning left out."""
    said = (part.text if isinstance(part, TextPart) else part.arguments for message in messages
            for part in message.parts if isinstance(part, TextPart | ToolCallPart))  # fmt: skip
    return scripts_of("".join(said))


START = 1.3
"""The ratio of a model whose name is not known. Real usage of Claude 4.5 needed 1.21 to 1.32."""
_START_OTHERS, _START_GEMMA = 1.05, 1.15
_START_CLAUDE, _START_NEWER_CLAUDE = 1.3, 1.55
"""Claude has another vocabulary from 4.7 on."""
_CLAUDE = re.compile(
    r"claude\D{0,20}?(\d{1,2})(?!\d)(?:[.-](\d{1,2})(?!\d))?|claude|\b(?:opus|sonnet|haiku)\b"
)
LOWEST, HIGHEST = 0.7, 2.0
MARGIN = 1.05
"""Decisions err high by this much: the learnt estimate was 5 % off at worst."""
_WEIGHT = 0.3
"""Of the newest observation in the running ratio."""
_SILENTLY_CUT = 0.7
"""A usage below this share of a calibrated estimate means that the server truncated the request."""
LEAST_GROWTH = 2_000
"""Estimated tokens by which a view must have grown between two usages: less is too little to learn from."""
_LIGHTEST, _HEAVIEST = 0.7, 3.0
"""Reported tokens for each estimated one, of an answer. Recorded were 0.71 (gpt-5.6) to 2.8 (short calls)."""
_TRIFLE = 8
"""Tokens: the frame of a message, which the estimate of a short answer consists of."""


@lru_cache(maxsize=64)
def start_ratio(model: str | None) -> float:
    """The ratio of a model before its server has reported any usage, by the family in its name."""
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
    (re.compile(r"gpt-?(?:4o|4\.1|[5-9]|oss)|\bo[1-9]\b|gemini|gemma"), 0.0),
    (re.compile(r"qwen-?(?:3\.[5-9]|[4-9](?![\db]))|devstral|magistral|ministral|mistral-nemo"), 0.55),
    (re.compile(r"deepseek(?!.*distill)"), 0.65),  # a distilled model has the vocabulary of another family
    (_CLAUDE, 0.9),
)
_BRAHMIC_FLOOR = 1.1
"""Least tokens of a Brahmic character: by family, and of others (docs/design/budget.md)."""


@lru_cache(maxsize=64)
def brahmic_floor(model: str | None) -> float:
    """The least that a character of `Scripts.brahmic` weighs, by the family in the name of the model."""
    name = (model or "").lower()
    return next((floor for family, floor in _BRAHMIC_FLOORS if family.search(name)), _BRAHMIC_FLOOR)


def fits_text(reported: int, estimated: int) -> bool:
    """Whether reported output tokens are plausible for an answer of so many estimated ones. Too low: counted
    early in a stream. Too high: with reasoning that was not reported as such."""
    return 0 < reported <= _HEAVIEST * (estimated + _TRIFLE) and reported + _TRIFLE >= _LIGHTEST * estimated


@dataclass(frozen=True, slots=True)
class Calibration:
    """Ratio of reported to estimated input tokens, by model. Immutable: `learn` gives another one."""

    ratios: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    doubted: frozenset[str] = frozenset()
    """Models whose server may cut requests: their newest usage was too small."""

    def ratio(self, model: str | None) -> float:
        learnt = self.ratios.get(model or "")
        if learnt is not None:
            return learnt
        start = start_ratio(model)
        return max(start, START) if model in self.doubted else start

    def doubt(self, model: str, *, doubted: bool) -> "Calibration":
        """With a model whose newest usage was too small, or no longer: it is weighed high until learnt."""
        return replace(self, doubted=self.doubted | {model} if doubted else self.doubted - {model})

    def scale(self, model: str | None) -> float:
        """What to multiply an estimate by for a decision: the ratio, and a margin that errs high."""
        return self.ratio(model) * MARGIN

    def weigh(self, model: str | None, tokens: float, scripts: Scripts) -> float:
        """What an estimate comes to for a decision. However low a ratio was learnt on English, an ideograph,
        kana or Hangul in it weighs at least one token, and a Brahmic character `brahmic_floor`."""
        scale = self.scale(model)
        cjk = scripts.cjk * max(0.0, 1 - min(_HAN, _KANA, _HANGUL) * scale)
        return tokens * scale + cjk + scripts.brahmic * max(0.0, brahmic_floor(model) - _OTHER * scale)

    def plausible(self, model: str, reported: int, estimated: int) -> bool:
        """Whether a reported input can be that of the whole request: a server may truncate silently."""
        return reported >= self.least(model, estimated)

    def least(self, model: str, estimated: float) -> float:
        """The smallest input that can be that of a whole request of so many estimated tokens."""
        return _SILENTLY_CUT * self.ratios.get(model, LOWEST) * estimated

    def learn(self, model: str, estimated: int, reported: int) -> "Calibration":
        """With one more request: its estimate before calibration and its reported input, in tokens."""
        if not self.plausible(model, reported, estimated):
            return self
        observed = min(HIGHEST, max(LOWEST, reported / estimated))
        known = self.ratios.get(model)
        ratio = observed if known is None else known + _WEIGHT * (observed - known)
        return replace(self, ratios=MappingProxyType({**self.ratios, model: ratio}))
