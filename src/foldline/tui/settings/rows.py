"""The lines of the Settings screen: the list by groups, and what is known of the marked setting. Pure."""

from typing import Final

from rich.cells import cell_len

from foldline.context.harmless import clean_line
from foldline.tui.blocks.cells import Span, crop, cut_left, cut_right, width_of, wrap_spans
from foldline.tui.keys.table import hint_words, name_of
from foldline.tui.prompting.completion import window_start
from foldline.tui.settings.keys import KEYS
from foldline.tui.settings.state import Setting, SettingsState
from foldline.tui.widgets.lines import HEAVY, edge, sides

Line = list[Span]

SEARCH_LINE: Final = 1
FIELD_LEFT: Final = 4
_HEAD: Final = 2
"""Lines above the list: edge, search."""
_VALUE_AT_LEAST: Final = 14
_KEY_AT_MOST: Final = 36
_ORIGIN_FROM: Final = 56
"""Columns from which a row says who set the value."""
_EFFECTS: Final = {
    "now": "A change counts at once, or after the turn that runs.",
    "start": "A change counts from the next start on.",
    "sessions": "A change counts in new sessions; /approvals switches this one.",
}
_SURE: Final = "In new sessions everything will run unasked. Again: yes, any other key: no"


def detail_rows(height: int) -> int:
    """Lines for what is known of the marked setting."""
    return 6 if height >= 20 else 3


def value_line(height: int) -> int:
    """The line on which a value is typed."""
    return height - 1 - detail_rows(height)


def screen_lines(state: SettingsState, width: int, height: int) -> list[Line]:
    """Exactly `height` lines of `width` cells."""
    below = detail_rows(height)
    room = max(height - _HEAD - below - 2, 1)
    shown = state.shown
    count = f"{state.at + 1} of {len(shown)}" if shown else ""
    setting = state.setting
    known = _details(state, setting, width - 4, below) if setting is not None else []
    return [
        edge(HEAVY, True, (("Settings", "text bold"),), ((count, "muted"),) if count else (), width),
        sides(HEAVY, _search(state), width),
        *(sides(HEAVY, line, width) for line in _list(state, width - 2, room)),
        _rule(setting.key if setting is not None else "", width),
        *(sides(HEAVY, [(" ", ""), *line], width) for line in known),
        *([sides(HEAVY, [], width)] * (below - len(known))),
        _foot(state, width),
    ]


def _search(state: SettingsState) -> Line:
    if state.searching:
        return [(" ❯ ", "accent")]
    if state.query:
        return [(" ❯ ", "muted"), (clean_line(state.query), "text")]
    return [("   ", ""), (f"{name_of(KEYS, 'search')} finds a setting", "muted")]


def _list(state: SettingsState, width: int, room: int) -> list[Line]:
    """The settings around the marked one, each group below its name."""
    shown = state.shown
    if not shown:
        lines: list[Line] = [[], [("   No setting holds that.", "muted")]]
        return (lines + [[]] * room)[:room]
    column = min(max(cell_len(clean_line(each.key)) for each in shown), _KEY_AT_MOST)
    lines = []
    marked = 0
    group = ""
    for at, each in enumerate(shown):
        if each.group != group:
            group = each.group
            lines.append([("   ", ""), (clean_line(group), "muted bold")])
        if at == state.at:
            marked = len(lines)
        lines.append(_row(each, at == state.at, column, width))
    first = window_start(marked, len(lines), room)
    if first and first == marked:
        first -= 1
    return (lines[first : first + room] + [[]] * room)[:room]


def _row(setting: Setting, marked: bool, column: int, width: int) -> Line:
    """`▶compaction.mode       ask                 config.toml`, exactly as wide."""
    origin = cut_left(clean_line(_in_short(setting)), width // 3) if width >= _ORIGIN_FROM else ""
    right = cell_len(origin) + 3 if origin else 1
    column = min(column, max(width - right - _VALUE_AT_LEAST - 5, 8))
    key = cut_left(clean_line(setting.key), column)
    room = max(width - right - column - 5, 4)
    value = cut_right(clean_line(setting.value or setting.unset), room)
    style = "text bold" if setting.origin else "text" if setting.value else "muted"
    if (setting.key, setting.value) == ("approvals.mode", "all"):
        style = "alert bold"
    return crop(
        [
            (" ", ""),
            ("▶ " if marked else "  ", "accent"),
            (key, "text reverse" if marked else "text"),
            (" " * (column - cell_len(key) + 2), ""),
            (value, style),
            (" " * (room - cell_len(value)), ""),
            (f"  {origin} " if origin else " ", "muted"),
        ],
        width,
    )


def _in_short(setting: Setting) -> str:
    """Who set it: of a file, the name."""
    return setting.origin.rpartition("/")[2]


def _rule(title: str, width: int) -> Line:
    named: Line = [("─ ", "accent"), (cut_left(clean_line(title), width - 8), "text bold"), (" ", "")]
    used = 2 + (sum(cell_len(text) for text, _ in named) if title else 0)
    line = named if title else []
    return [("┠", "accent"), *line, ("─" * max(width - used, 0), "accent"), ("┨", "accent")]


def _details(state: SettingsState, setting: Setting, width: int, most: int) -> list[Line]:
    """What it means, what it may be, who set it; at the end what a change does, or did. While a value is
    typed, that stands first, with what is wrong with it."""
    meaning = wrap_spans([(clean_line(setting.meaning), "text")], width)[:2]
    allowed: Line = [(cut_right(_allowed(setting), width), "muted")]
    if state.editing:
        judged = (state.fault, "alert") if state.fault else ("Enter keeps it.", "muted")
        field: Line = [("❯ ", "accent")]
        return [field, *wrap_spans([judged], width)[:2], allowed, *meaning][:most]
    last = wrap_spans([_last(state, setting)], width)[:most]
    facts = [*meaning, allowed, _set_by(state, setting, width)][: most - len(last)]
    return [*facts, *([[]] * (most - len(last) - len(facts))), *last]


def _last(state: SettingsState, setting: Setting) -> Span:
    if state.confirming:
        return f"! {_SURE}", "alert"
    if state.fault:
        return f"! {clean_line(state.fault)}", "alert"
    if state.news:
        return clean_line(state.news), "text"
    return _EFFECTS[setting.effect], "muted"


def _allowed(setting: Setting) -> str:
    return f"May be {setting.allowed}. Left out: {setting.default or setting.unset or 'empty'}."


def _set_by(state: SettingsState, setting: Setting, width: int) -> Line:
    if setting.overruled_by:
        says = f", which says {setting.own or 'empty'}" if setting.own is not None else ""
        words = f"{clean_line(setting.overruled_by)} goes before {state.file}{clean_line(says)}."
        return [("! ", "altered"), (cut_right(words, width - 2), "text")]
    who = f"Set by {clean_line(setting.origin)}." if setting.origin else "Nobody has set it."
    return [(cut_right(who, width), "muted")]


def _foot(state: SettingsState, width: int) -> Line:
    """The keys that work; help at the right end, where there is room."""
    if state.editing or state.searching:
        enter = " keeps it · " if state.editing else " to the list · "
        leaves = _esc("leaves it" if state.editing else "ends the search")
        return edge(HEAVY, False, (("Enter", "accent"), (enter, "text"), *leaves), (), width)
    *shown, (help_key, help_word) = hint_words(KEYS, state)
    leaves = _esc("ends the search" if state.query else "closes")
    spans = [span for key, word in shown for span in ((key, "accent"), (f" {word} · ", "text"))]
    while spans and width_of(spans) + width_of(leaves) > width - 6:
        spans = spans[:-2]
    aid = ((help_key, "accent"), (f" {help_word}", "muted"))
    return edge(HEAVY, False, (*spans, *leaves), aid, width)


def _esc(word: str) -> tuple[Span, Span]:
    return (name_of(KEYS, "close"), "accent"), (f" {word}", "text")
