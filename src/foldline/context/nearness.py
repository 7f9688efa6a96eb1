"""Nearness: how much texts are about the same things, by the rarer words they share. Pure; no model.

Tf-idf and the cosine between texts. Words are those of prose and of code, whose parts count too
(`parseOrder` is also `parse` and `order`); scripts without blanks count by pairs of characters.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence

_WIDE = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_TERM = re.compile(rf"[{_WIDE}]+|[^\W\d{_WIDE}][^\W{_WIDE}]{{1,60}}")
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def nearness(task: str, texts: Sequence[str]) -> list[float]:
    """For each text, how near it is to the task: 0 shares no word, 1 has the same in the same measure."""
    wanted = Counter(terms(task))
    counted = [Counter(terms(text)) for text in texts]
    found_in = Counter(term for counts in (wanted, *counted) for term in counts)
    rarity = {term: math.log((2 + len(texts)) / (1 + count)) for term, count in found_in.items()}
    goal = _weights(wanted, rarity)
    return [_cosine(goal, _weights(counts, rarity)) for counts in counted]


def terms(text: str) -> list[str]:
    """What of a text is compared, in small letters."""
    found: list[str] = []
    for term in _TERM.findall(text):
        if ord(term[0]) >= 0x3040:
            found += [term[at : at + 2] for at in range(max(1, len(term) - 1))]
            continue
        found.append(term.lower())
        if "_" in term or not (term.islower() or term.istitle() or term.isupper()):
            found += [part.lower() for part in _PART.findall(term) if len(part) > 2]
    return found


def _weights(counts: Counter[str], rarity: dict[str, float]) -> dict[str, float]:
    """Said ten times is not ten times as much."""
    return {term: (1 + math.log(count)) * rarity[term] for term, count in counts.items()}


def _cosine(one: dict[str, float], other: dict[str, float]) -> float:
    lengths = _length(one) * _length(other)
    if not lengths:
        return 0.0
    shared = sum(weight * other[term] for term, weight in one.items() if term in other)
    return min(1.0, shared / lengths)


def _length(weights: dict[str, float]) -> float:
    return math.sqrt(sum(weight * weight for weight in weights.values()))
