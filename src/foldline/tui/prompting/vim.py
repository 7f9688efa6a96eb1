"""Vim's normal and visual modes as a function of text, cursor and key. Pure.

In insert mode the editor takes the keys; what was typed is found in the text when Esc ends it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final, Literal

Mode = Literal["insert", "normal", "visual", "visual line"]
ESC, REDO = "\x1b", "\x12"  # REDO is Ctrl+R

_MOTION = r"[hjklwbeWBE^$G;,]|(?<!\d)0|gg|[fFtT]."
_OBJECT = r"[ia][wW\"'`()b\[\]{}B]"
_NORMAL: Final = re.compile(
    rf"(?P<count>[1-9]\d*)?(?P<keys>{_MOTION}|[xXsSDCYpP~uvViaIAoO.\x12]|r."
    rf"|[dcy](?P<second>[1-9]\d*)?(?P<on>[dcy]|{_OBJECT}|{_MOTION}))",
    re.DOTALL,
)
_VISUAL: Final = re.compile(rf"(?P<count>[1-9]\d*)?(?P<keys>{_MOTION}|{_OBJECT}|[dxcsyvV])", re.DOTALL)
_BEGUN: Final = re.compile(r"(?:[1-9]\d*)?(?:[dcy](?:[1-9]\d*)?)?[iafFtTgr]?")
_SHORT: Final = {"x": "dl", "X": "dh", "s": "cl", "S": "cc", "D": "d$", "C": "c$", "Y": "yy"}
_WORD: Final = (r"\w+|[^\w\s]+", r"\S+")  # as small and as big letters take it
_BRACKETS: Final = {sign: pair for pair in ("()b", "[]", "{}B") for sign in pair}
_MOST: Final = 100_000
"""The largest count, and the most characters that one makes at once."""
_STEPS: Final = 200  # that can be undone
Moment = tuple[str, int]  # a text, and where the cursor was in it


@dataclass(frozen=True, slots=True)
class Vim:
    """A text, the cursor's place in it, and what is remembered between two keys."""

    text: str = ""
    at: int = 0
    mode: Mode = "insert"
    keys: str = ""  # of a command that is not complete
    anchor: int = 0  # the end of the selection that stays
    column: int | None = None  # where `j` and `k` want to be in a line, after one of them or `$`
    find: str = ""  # the last of `f`, `F`, `t` and `T`, and its character
    register: str = ""
    of_lines: bool = False  # whether the register holds whole lines
    change: tuple[str, int] = ("", 0)  # what `.` does again: keys and count, 0 for none
    typed: str = ""  # what was typed after these keys
    begun: Moment = ("", 0)  # as insert mode began
    seen: Moment = ("", 0)  # as of the last key: what differs from it is undone in one step
    undo: tuple[Moment, ...] = ()
    redo: tuple[Moment, ...] = ()


def press(vim: Vim, key: str) -> Vim:
    """What a key, given as its character, makes of it. In insert mode only Esc means anything here."""
    if vim.text != vim.seen[0]:
        vim = replace(vim, undo=(*vim.undo, vim.seen)[-_STEPS:], redo=())
    vim = replace(vim, seen=(vim.text, vim.at))
    if key == ESC:
        return _escaped(vim)
    keys, (grammar, carry_out) = vim.keys + key, _MODES[vim.mode == "normal"]
    found = grammar.fullmatch(keys)
    if found is None:
        return replace(vim, keys=keys if _BEGUN.fullmatch(keys) else "")
    parts = found.groupdict()
    counts = [int(parts[each][:6]) for each in ("count", "second") if parts.get(each)]
    command = parts["keys"][0] + parts["on"] if parts.get("on") else parts["keys"]
    after = carry_out(replace(vim, keys=""), command, min(prod(counts), _MOST) if counts else 0)
    if after.mode == "insert":
        return replace(after, begun=(after.text, after.at))
    return replace(after, at=_inside(after.text, after.at))


def selection(vim: Vim) -> tuple[int, int] | None:
    """The characters that are selected, from and up to; None outside of the visual modes."""
    low, high = sorted((vim.anchor, vim.at))
    if vim.mode == "visual":  # behind `$` the line's end, too
        return low, min(high + 1 + (vim.column == _MOST), len(vim.text))
    return _lines(vim.text, low, high) if vim.mode == "visual line" else None


def _escaped(vim: Vim) -> Vim:
    at, typed = vim.at, vim.typed
    if vim.mode == "insert":
        before, place = vim.begun
        typed = vim.text[place : place + len(vim.text) - len(before)]
        if before[:place] + typed + before[place:] != vim.text:
            typed = ""  # more was deleted than had been typed
        at = max(at - 1, _line(vim.text, at)[0])
    return replace(vim, at=_inside(vim.text, at), mode="normal", keys="", column=None, typed=typed)


def _done(vim: Vim, keys: str, count: int) -> Vim:
    """A command of the normal mode."""
    keys = _SHORT.get(keys, keys)
    if keys not in ("j", "k"):
        vim = replace(vim, column=None)
    after = _ACTS.get(keys[0], _moved)(vim, keys, count)
    did = keys[0] in "dcpP~riaIAoO" and (after.text != vim.text or after.mode == "insert")
    return replace(after, change=(keys, count), typed="") if did else after


def _selected(vim: Vim, keys: str, count: int) -> Vim:
    """A command of the visual modes. `.` does it again to as much text."""
    lines, (low, high) = vim.mode == "visual line", selection(vim) or (0, 0)
    if keys in "vV":
        mode: Mode = "visual" if keys == "v" else "visual line"
        return replace(vim, mode="normal" if mode == vim.mode else mode)
    if keys[0] in "ia":
        start, end = _objects(vim.text, vim.at, keys, count or 1) or (-1, -1)
        return vim if start < 0 else replace(vim, mode="visual", anchor=start, at=max(end - 1, start))
    if keys not in "dxcsy":
        return _moved(vim, keys, count)
    operator = _SHORT.get(keys, keys)[0]
    after = _operated(replace(vim, mode="normal"), operator, low, high, lines)
    size = vim.text.count("\n", low, max(high - 1, low)) + 1 if lines else high - low
    change = (operator + (operator if lines else "l"), size)
    return replace(after, at=low) if operator == "y" else replace(after, change=change, typed="")


def _inside(text: str, at: int) -> int:
    """The nearest place on a character; on an empty line, on its end."""
    low, high = _line(text, min(max(at, 0), len(text)))
    return max(min(at, high - 1), low)


def _line(text: str, at: int) -> tuple[int, int]:
    """Where the line around a place begins and ends."""
    end = text.find("\n", at)
    return text.rfind("\n", 0, at) + 1, len(text) if end < 0 else end


def _lines(text: str, low: int, high: int) -> tuple[int, int]:
    """The whole lines around two places, with the last line's end."""
    return _line(text, low)[0], min(_line(text, high)[1] + 1, len(text))


def _indent(text: str, at: int) -> int:
    """The first character of the line around a place that is no blank."""
    start, end = _line(text, at)
    return end - len(text[start:end].lstrip())


def _target(vim: Vim, keys: str, count: int, operator: str = "") -> int | None:
    """Where a motion leads; None where it fails."""
    text, at, times = vim.text, vim.at, count or 1
    if keys in ("j", "k", "gg", "G"):
        return _by_lines(vim, keys, count)
    if keys in "wbeWBE":
        return _by_words(text, at, keys, times, operator)
    if keys[0] in "fFtT;,":
        return _found(vim, keys, times)
    low, high = _line(text, at)
    if keys == "$" and times > 1:  # of the line so many below, or of the last one; not from that itself
        ends = [found.start() for found in re.finditer("\n|\\Z", text[at:])]
        return at + ends[min(times, len(ends)) - 1] if len(ends) > 1 else None
    places = {"h": max(at - times, low), "l": min(at + times, high), "0": low, "$": high}
    return places.get(keys, _indent(text, at))


def _by_lines(vim: Vim, keys: str, count: int) -> int | None:
    starts = [0, *(found.end() for found in re.finditer("\n", vim.text))]
    now, last = vim.text.count("\n", 0, vim.at), len(starts) - 1
    if keys not in "jk":
        return _indent(vim.text, starts[min((count or (1 if keys == "gg" else last + 1)) - 1, last)])
    line = min(now + (count or 1), last) if keys == "j" else max(now - (count or 1), 0)
    column = vim.at - starts[now] if vim.column is None else vim.column
    start, end = _line(vim.text, starts[line])
    return None if line == now else max(min(start + column, end - 1), start)


def _by_words(text: str, at: int, keys: str, times: int, operator: str) -> int | None:
    word = re.compile(f"{_WORD[keys.isupper()]}|^$", re.MULTILINE)  # an empty line counts as one
    words = [found.span() for found in word.finditer(text)]
    if operator == "c" and keys in "wW" and text[at : at + 1].strip():
        return [end for _, end in words if end > at][:times][-1]  # as `e`, from where it is
    if keys in "bB":
        before = [start for start, _ in words if start < at]
        return ([0] * times + before)[-times] if at or not operator else None
    if keys in "eE":
        ends = [end - 1 for start, end in words if end - 1 > at and end > start]
        return (ends[:times] or [max(len(text) - 1, at)])[-1]
    to = ([start for start, _ in words if start > at] + [len(text)] * times)[times - 1]
    over = text[at:to]
    if operator and "\n" in over and not over[over.rfind("\n") :].strip():
        return at + over.rfind("\n")  # the last word of a line: up to its end, not to the next word
    return to


def _found(vim: Vim, keys: str, times: int) -> int | None:
    again = keys in ";,"
    keys = {";": vim.find, ",": vim.find[:1].swapcase() + vim.find[1:]}.get(keys, keys)
    if not keys:
        return None
    low, high = _line(vim.text, vim.at)
    short, step = keys[0] in "tT", 1 if keys[0] in "ft" else -1
    first = vim.at + step * (2 if again and short and times == 1 else 1)
    places = [at for at in range(first, high if step > 0 else low - 1, step) if vim.text[at] == keys[1]]
    return None if len(places) < times else places[times - 1] - step * short


def _object(text: str, at: int, keys: str) -> tuple[int, int] | None:
    """The text object around a place, from and up to."""
    around, sign = keys[0] == "a", keys[1]
    low, high = _line(text, at)
    if sign in "\"'`":
        quoted = re.compile(rf"{sign}(?:\\.|[^{sign}\\])*{sign}" + r"[ \t]*" * around)
        found = next((each for each in quoted.finditer(text, low, high) if each.end() > at), None)
        return None if found is None else (found.start() + (not around), found.end() - (not around))
    if sign in _BRACKETS:
        pair = _bracketed(text, at, _BRACKETS[sign])
        return None if pair is None else (pair[0] + (not around), pair[1] + around)
    word = re.compile(rf"{_WORD[sign == 'W']}|[^\S\n]+")
    spans = [found.span() for found in word.finditer(text, low, high)]
    number = next((number for number, (_, end) in enumerate(spans) if end > at), None)
    if number is None:
        return at, at
    start, end = spans[number]
    if around:  # the blanks behind a word, else those before it; behind blanks the word
        blank, following = text[start].isspace(), spans[number + 1 : number + 2]
        if following and text[end].isspace() != blank:
            end = following[0][1]
        elif not blank and number and text[start - 1].isspace():
            start = spans[number - 1][0]
    return start, end


def _objects(text: str, at: int, keys: str, times: int) -> tuple[int, int] | None:
    """So many text objects: words one behind the other, brackets one around the other; of quotes one."""
    place = _object(text, at, keys)
    for _ in range(times - 1 if keys[1] not in "\"'`" else 0):
        if place is None:
            break
        start, end = place
        if keys[1] in "wW":
            _, further = _object(text, end, keys) or place
            place = (start, further) if further > end else None
        else:
            outer = _object(text, start - 1 - (keys[0] == "i"), keys)
            place = outer if outer is not None and outer[0] < start else None
    return place


def _bracketed(text: str, at: int, pair: str) -> tuple[int, int] | None:
    """Where the innermost brackets around a place stand, else the next ones."""
    opened, found = list[int](), list[tuple[int, int]]()
    for place, sign in enumerate(text):
        if sign == pair[0]:
            opened.append(place)
        elif sign == pair[1] and opened:
            found.append((opened.pop(), place))
    ends_after = (each for each in found if each[1] >= at)
    return min(ends_after, key=lambda each: (each[0] > at, abs(each[0] - at)), default=None)


def _edited(vim: Vim, low: int, high: int, fresh: str, at: int, **more: Any) -> Vim:
    return replace(vim, text=vim.text[:low] + fresh + vim.text[high:], at=at, **more)


def _moved(vim: Vim, keys: str, count: int) -> Vim:
    to, column = _target(vim, keys, count), _MOST if keys == "$" else None
    if keys in ("j", "k"):
        column = vim.at - _line(vim.text, vim.at)[0] if vim.column is None else vim.column
    vim = replace(vim, at=vim.at if to is None else to, column=column)
    return replace(vim, find=keys) if keys[0] in "fFtT" else vim


def _operate(vim: Vim, keys: str, count: int) -> Vim:
    operator, on = keys[0], keys[1:]
    if on in "dcy":
        last = _target(vim, "j", count - 1) if count > 1 else vim.at
        fails = on != operator or last is None
        return vim if fails else _operated(vim, operator, *_lines(vim.text, vim.at, last or 0), True)
    if on[0] in "ia":
        place = _objects(vim.text, vim.at, on, count or 1)
        return vim if place is None else _operated(vim, operator, *place, False)
    to = _target(vim, on, count, operator)
    if on[0] in "fFtT":
        vim = replace(vim, find=on)
    if to is None:
        return vim
    low, high = sorted((vim.at, to))
    all_of_lines = operator + on == "d$" and "\n" in vim.text[low:high] and low <= _indent(vim.text, low)
    if on in ("j", "k", "gg", "G") or all_of_lines:
        return _operated(replace(vim, at=low), operator, *_lines(vim.text, low, high), True)
    ahead = on[0] in "eEft" or (on in ";," and to >= vim.at)
    over = vim.text[low : high + ahead]  # up to the start of a line: to the end of the one before
    before = over.endswith("\n") and not ahead and (on in "bB" or vim.text[high : high + 1] != "\n")
    return _operated(vim, operator, low, low + len(over) - before, False)


def _operated(vim: Vim, operator: str, low: int, high: int, lines: bool) -> Vim:
    """After `d`, `c` or `y` of the characters from `low` up to `high`."""
    taken = vim.text[low:high]
    if lines:
        taken = taken.removesuffix("\n") + "\n"
    vim = replace(vim, register=taken or vim.register, of_lines=lines if taken else vim.of_lines)
    if operator == "y":
        return vim if lines else replace(vim, at=low)
    if operator == "c":
        return _edited(vim, low, high - (lines and vim.text[low:high].endswith("\n")), "", low, mode="insert")
    if lines and high == len(vim.text):
        low -= low > 0 and not vim.text[low:high].endswith("\n")  # the last line goes with the end before it
    after = _edited(vim, low, high, "", low)
    return replace(after, at=_indent(after.text, _line(after.text, low)[0])) if lines else after


def _put(vim: Vim, keys: str, count: int) -> Vim:
    if not vim.register:
        return vim
    fresh = vim.register * min(count or 1, max(_MOST // len(vim.register), 1))
    low, high = _line(vim.text, vim.at)
    if not vim.of_lines:
        at = min(vim.at + (keys == "p"), high)
        return _edited(vim, at, at, fresh, at + (0 if "\n" in fresh else len(fresh) - 1))
    if keys == "p":
        low, fresh = high, "\n" + fresh.removesuffix("\n")
    after = _edited(vim, low, low, fresh, low)
    return replace(after, at=_indent(after.text, low + (keys == "p")))


def _over(vim: Vim, keys: str, count: int) -> Vim:
    """`r` and `~`: other characters in the place of some."""
    stop, end = vim.at + (count or 1), _line(vim.text, vim.at)[1]
    if keys == "~":
        stop = min(stop, end)
        return _edited(vim, vim.at, stop, vim.text[vim.at : stop].swapcase(), stop)
    return vim if stop > end else _edited(vim, vim.at, stop, keys[1] * (stop - vim.at), stop - 1)


def _insert(vim: Vim, keys: str, count: int) -> Vim:
    low, high = _line(vim.text, vim.at)
    places = {"i": vim.at, "a": min(vim.at + 1, high), "I": _indent(vim.text, low), "A": high, "o": high}
    at, fresh = places.get(keys, low), "\n" if keys in "oO" else ""
    return _edited(vim, at, at, fresh, at + (keys == "o"), mode="insert")


def _travelled(vim: Vim, keys: str, count: int) -> Vim:
    """`u` and Ctrl+R."""
    back, here = keys == "u", (vim.text, vim.at)
    *left, there = (vim.undo if back else vim.redo) or (here,)
    if there is here:
        return vim
    undo, redo = (left, [*vim.redo, here]) if back else ([*vim.undo, here], left)
    after = replace(vim, text=there[0], at=there[1], seen=there, undo=tuple(undo), redo=tuple(redo))
    return _travelled(after, keys, count - 1) if count > 1 else after


def _repeated(vim: Vim, keys: str, count: int) -> Vim:
    (change, before), typed = vim.change, vim.typed
    if not change:
        return vim
    after = _done(vim, change, count or before)
    if after.mode == "insert":
        end = max(after.at + len(typed) - 1, _line(after.text, after.at)[0])
        after = _edited(after, after.at, after.at, typed, end, mode="normal")
    return replace(after, typed=typed)


_ACTS: Final[Mapping[str, Callable[[Vim, str, int], Vim]]] = {
    **dict.fromkeys("dcy", _operate),
    **dict.fromkeys("pP", _put),
    **dict.fromkeys("r~", _over),
    **dict.fromkeys("iaIAoO", _insert),
    "v": lambda vim, keys, count: replace(vim, mode="visual", anchor=vim.at),
    "V": lambda vim, keys, count: replace(vim, mode="visual line", anchor=vim.at),
    **dict.fromkeys(("u", REDO), _travelled),
    ".": _repeated,
}
_MODES: Final = ((_VISUAL, _selected), (_NORMAL, _done))
