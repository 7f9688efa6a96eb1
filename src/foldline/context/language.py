"""Which language a conversation is held in, as far as prompts care."""

import re
from collections.abc import Sequence
from typing import Literal

from foldline.protocol import BaseMessage, UserMessage

Language = Literal["en", "zh"]

_HAN = re.compile(r"[\u4e00-\u9fff]")
_KANA_OR_HANGUL = re.compile(r"[\u3040-\u30ff\uac00-\ud7af]")
_HAN_WEIGHT = 3
"""An ideograph says about as much as three Latin letters; code and paths in a Chinese prompt are Latin."""


def language_of(messages: Sequence[BaseMessage]) -> Language:
    """`zh` where the user writes Chinese; `en` for every other language, whose prompts say to follow it."""
    typed = [m.typed for m in messages if isinstance(m, UserMessage) and m.typed]
    text = "\n".join(typed or [message.text for message in messages])
    han = len(_HAN.findall(text))
    if _KANA_OR_HANGUL.search(text) and len(_KANA_OR_HANGUL.findall(text)) * 4 > han:
        return "en"
    return "zh" if han * _HAN_WEIGHT > len(text) - han else "en"
