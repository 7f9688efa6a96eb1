"""When two texts say the same: what a model writes differently without meaning anything by it is alike.

Case, width, quotation marks, emphasis, blanks and thousands separators are alike. Pure.
"""

import re
from collections.abc import Iterable
from unicodedata import normalize

from foldline.context.audit import path_parts
from foldline.context.facts import is_path, paths

REFUSAL = "not in this session"
"""What a model is told to answer where the conversation does not say."""

_MOST = 200
"""Characters of an answer that may surround what was asked for; longer ones try their luck."""
_REFUSES = 60
"""Characters a refusal may have beside its words."""

_ALIKE = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′´", "'"),
        **dict.fromkeys("“”„‟″«»", '"'),
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad`", None),
        "。": ".",
        "、": ",",
    }
)
_THOUGHT = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL)
"""Reasoning that local servers leave in the answer."""
_LABEL = re.compile(r"\A(?:the )?answer(?: is)?:? +", re.IGNORECASE)
_THOUSANDS = re.compile(r"(?<![\d.,])(\d{1,3}(?:[,_]\d{3})+)(?!\d)")
_UNIT = re.compile(r"(?<=\d) (?=[a-z%µ°])")
_WIDE = "\u2e80-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_BESIDE_WIDE = re.compile(rf"\s+(?=[{_WIDE}])|(?<=[{_WIDE}])\s+")


def normal(text: str) -> str:
    """The form in which texts are compared."""
    text = normalize("NFKC", text.translate(_ALIKE)).casefold()
    text = _THOUSANDS.sub(lambda number: re.sub(r"[,_]", "", number[1]), text.replace("**", ""))
    text = _BESIDE_WIDE.sub("", " ".join(text.split()))
    return _UNIT.sub("", text)


def said(answer: str) -> str:
    """What an answer says, without reasoning, a label before it and the quotation marks around it."""
    text = _LABEL.sub("", _THOUGHT.sub("", answer).strip())
    return normal(text).strip("\"' ").rstrip(".!;, ").strip("\"' ")


def is_refusal(answer: str) -> bool:
    text = said(answer)
    return text.startswith(REFUSAL) or (REFUSAL in text and len(text) <= len(REFUSAL) + _REFUSES)


def holds(text: str, wanted: str) -> bool:
    """Whether a normalised text holds another as a whole: `246` is not in `1246`, nor `30` in `30.5`."""
    if not wanted:
        return False
    before = _not_before(wanted[0])
    after = _not_after(wanted[-1])
    return re.search(before + re.escape(wanted) + after, text) is not None


def _not_before(first: str) -> str:
    if first.isdecimal():
        return r"(?<![a-z0-9_])(?<!\d[.,:])(?<!\A-)(?<![\s=(:]-)"
    return r"(?<![a-z0-9_])" if first.isascii() and (first.isalpha() or first == "_") else ""


def _not_after(last: str) -> str:
    if last.isdecimal():
        return r"(?!\d|[.,:]\d)"
    return r"(?![a-z0-9_])" if last.isascii() and (last.isalpha() or last == "_") else ""


def gives(answer: str, accepted: Iterable[str], wrong: Iterable[str] = ()) -> bool:
    """Whether an answer is one of the accepted texts, or a short sentence that holds it and no wrong one."""
    text = said(answer)
    right = [said(each) for each in accepted]
    if text in right:
        return True
    if is_refusal(answer) or any(holds(_without(text, right), said(each)) for each in wrong):
        return False
    return any(holds(text, each) and len(text) <= max(_MOST, 3 * len(each)) for each in right)


def _without(text: str, right: Iterable[str]) -> str:
    """The text around what is right: `238` is no wrong value within `dimGray: 238px` where that is right."""
    for each in right:
        text = text.replace(each, " ")
    return text


# -- paths -----------------------------------------------------------------------------------------

_MARK = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+")
_SPACED = re.compile(r"[^\s.]*/[^\s.]*(?: [^\s./]+)* [^\s/]+\.\w{1,8}")
"""A path with blanks in its last name, `docs/My Notes.md`, and not several paths or a sentence."""
_REMARK = re.compile(r"\s+(?:[-–—:#]\s.*|\([^()]*\)\s*)$")


def same_file(one: str, other: str) -> bool:
    """Whether two paths can name one file: the shorter one is the end of the longer one."""
    a, b = _parts(one), _parts(other)
    short = min(len(a), len(b))
    return short > 0 and a[-short:] == b[-short:]


def _parts(path: str) -> tuple[str, ...]:
    return path_parts(normalize("NFC", path.strip()))


def named_paths(answer: str) -> list[str]:
    """The paths an answer lists, in its order, none twice; meant for one a line, forgiving about the rest."""
    found: list[str] = []
    for line in _THOUGHT.sub("", answer).splitlines():
        found += _paths_in(_MARK.sub("", line).strip())
    return list(dict.fromkeys(found))


def _paths_in(line: str) -> list[str]:
    quoted = [piece for piece in re.findall(r"`([^`]+)`", line) if is_path(piece) or "/" in piece]
    if quoted:
        return quoted
    bare = _REMARK.sub("", line).strip("\"'`*,; ")
    if " " not in bare:
        return [bare] if is_path(bare) or "/" in bare else []
    return [bare] if _SPACED.fullmatch(bare) else list(paths(line))


def f1(listed: Iterable[str], files: Iterable[str]) -> float:
    """How well a list of paths meets a set of files: 1 names all of them and nothing else.

    A name that could be several of the files stands for none of them.
    """
    listed, files = list(listed), list(files)
    if not listed or not files:
        return float(not listed and not files)
    found: set[str] = set()
    right = 0
    for path in listed:
        meant = [file for file in files if same_file(path, file)]
        meant = [file for file in meant if _parts(file) == _parts(path)] or meant
        if len(meant) == 1:
            right += 1
            found.add(meant[0])
    precision, recall = right / len(listed), len(found) / len(files)
    return 2 * precision * recall / (precision + recall) if right else 0.0
