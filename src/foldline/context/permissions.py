"""What the user allowed for a session, folded from its history; and how rules are said. Pure.

Only `approval` entries count, and only those written here: no text grants anything, whoever wrote it, and
nothing that came with an import does. Folds, clears, rewinds and undos do not touch what was allowed.
"""

from collections.abc import Iterable
from typing import NamedTuple

from foldline.protocol import NEW, Approval, ApprovalMode, Rule
from foldline.protocol.entries import ApprovalScope

from .outline import Outline


class Granted(NamedTuple):
    """The rules in force, and the mode that was chosen last, if any was."""

    rules: frozenset[Rule] = frozenset()
    mode: ApprovalMode | None = None

    def after(self, entry: Approval) -> "Granted":
        """What is allowed once the user has said this, too. Rules of a project are kept elsewhere."""
        rules = self.rules
        if entry.rule is not None and entry.scope == "session":
            rules = rules | {entry.rule} if entry.granted else rules - {entry.rule}
        return Granted(rules, entry.mode or self.mode)


def granted_in(outlines: Iterable[Outline], *, after: int = NEW) -> Granted:
    """What a session allows that is resumed. Entries up to the index `after` may be anybody's word.

    The mode `all` ends with the program it was confirmed in; then the settings hold again.
    """
    granted = Granted()
    for outline in outlines:
        if isinstance(outline, Approval) and outline.index > after:
            granted = granted.after(outline)
    return granted if granted.mode != "all" else Granted(granted.rules)


def rule_words(rule: Rule) -> str:
    """A rule in one line: `bash: git status …`, `bash: exactly make -j4`, `edit`, `fetch: python.org`."""
    if not rule.pattern:
        return f"every tool of {rule.tool[:-1].rstrip('_')}" if rule.tool.endswith("*") else rule.tool
    if rule.exact:
        return f"{rule.tool}: exactly {rule.pattern}"
    return f"{rule.tool}: {rule.pattern} …" if rule.tool == "bash" else f"{rule.tool}: {rule.pattern}"


def promise(rule: Rule) -> str:
    """What a rule would allow beyond the call that is asked about."""
    if rule.exact:
        return "exactly this command"
    if rule.pattern:
        return f"{rule.pattern} …" if rule.tool == "bash" else f"{rule.tool} {rule.pattern}"
    if rule.tool.endswith("*"):
        return rule_words(rule)
    return f"any {rule.tool}" if rule.tool.startswith("mcp__") else f"any {rule.tool} inside this folder"


_SCOPES: dict[ApprovalScope, str] = {"session": "in this session", "project": "in this project"}
_MODES: dict[ApprovalMode, str] = {
    "ask": "edits and commands ask first",
    "edits": "edits run unasked, commands ask first",
    "all": "everything runs unasked",
}


def mode_words(mode: ApprovalMode) -> str:
    return _MODES[mode]


def approval_words(entry: Approval) -> str:
    """What the user said, as lists and the transcript show it."""
    words = []
    if entry.mode is not None:
        words.append(f"from here on {_MODES[entry.mode]}")
    if entry.rule is not None:
        verb = "always allowed" if entry.granted else "no longer allowed unasked"
        words.append(f"{verb} {_SCOPES[entry.scope]}: {rule_words(entry.rule)}")
    return "; ".join(words) or "an approval that says nothing"
