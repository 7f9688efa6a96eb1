"""What the user allowed for a session, replayed from its history; and how rules are said. Pure.

Only `approval` entries count, and only those written here: no text grants anything, whoever wrote it, and
nothing that came with an import does. Compactions, clears, rewinds and undos do not touch what was allowed.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from foldline.protocol import NEW, Approval, ApprovalMode, Rule
from foldline.protocol.entries import ApprovalScope

from .outline import Outline


class Granted(NamedTuple):
    """The rules in force, and the mode that was chosen last, if any was."""

    rules: frozenset[Rule] = frozenset()
    mode: ApprovalMode | None = None
    before: ApprovalMode | None = None
    """The one that comes back after the mode `plan`."""

    def after(self, entry: Approval) -> "Granted":
        """What is allowed once the user has said this, too. Rules of a project are kept elsewhere."""
        rules = self.rules
        if entry.rule is not None and entry.scope == "session":
            rules = rules | {entry.rule} if entry.granted else rules - {entry.rule}
        return Granted(rules, entry.mode or self.mode, entry.before or self.before)


def granted_in(outlines: Iterable[Outline], *, after: int = NEW) -> Granted:
    """What a resumed session allows; entries up to index `after` may be anybody's word. The mode `all` ends
    with the program it was confirmed in; then the settings hold again, and after a plan, each call asks."""
    granted = Granted()
    for outline in outlines:
        if isinstance(outline, Approval) and outline.index > after:
            granted = granted.after(outline)
    mode, before = (None if each == "all" else each for each in granted[1:])
    return Granted(granted.rules, mode, before)


def rule_words(rule: Rule) -> str:
    """A rule in one line: `bash: git status …`, `bash: exactly make -j4`, `edit`, `fetch: python.org`."""
    if not rule.pattern:
        return f"every tool of {rule.tool[:-1].rstrip('_')}" if rule.tool.endswith("*") else rule.tool
    if rule.exact:
        return f"{rule.tool}: exactly {rule.pattern}"
    if rule.tool == "bash":
        return f"bash: {rule.pattern} …" + ("" if rule.part else ", alone")
    return f"{rule.tool}: {rule.pattern}"


def rules_grant(rules: Sequence[Rule]) -> str:
    """What rules would allow beyond the call that is asked about."""
    *most, last = map(_grants, rules)
    return f"{', '.join(most)} and {last}" if most else last


def _grants(rule: Rule) -> str:
    if rule.exact:
        return "exactly this command"
    if rule.pattern:
        return f"{rule.pattern} …" if rule.tool == "bash" else f"{rule.tool} {rule.pattern}"
    if rule.tool.endswith("*"):
        return rule_words(rule)
    return f"any {rule.tool}" if rule.tool.startswith("mcp__") else f"any {rule.tool} inside this folder"


_SCOPES: dict[ApprovalScope, str] = {"session": "in this session", "project": "in this project"}
_MODES: dict[ApprovalMode, str] = {
    "ask": "you are asked before edits and commands",
    "edits": "edits run without asking, commands ask first",
    "sandboxed": "what stays inside the sandbox runs without asking, what needs more asks",
    "read-only": "nothing is changed: commands only read, in the sandbox",
    "all": "everything runs without asking",
    "plan": "nothing is changed and no command runs until you accept a plan",
}


def mode_words(mode: ApprovalMode) -> str:
    return _MODES[mode]


def approval_words(entry: Approval) -> str:
    """What the user said, as lists and the transcript show it."""
    words = []
    if entry.mode is not None:
        words.append(f"mode {entry.mode}: {_MODES[entry.mode]}")
    if entry.rule is not None:
        verb = "always allowed" if entry.granted else "no longer allowed without asking"
        words.append(f"{verb} {_SCOPES[entry.scope]}: {rule_words(entry.rule)}")
    return "; ".join(words) or "an approval that says nothing"


_LONGEST = 120
"""Characters; who writes more says something."""

_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        a again agree agreed ahead all alright amazing and approve approved are as awesome begin
        carry confirmed cool continue correct d described discussed do done exactly excellent
        execute fine for go going good great happen i implement implementing it just k keep kk
        let lets ll lgtm like looks love m make me next nice now of ok okay okey on perfect plan
        planned please pls proceed proposed r re right roger s said say sounds start step steps
        suggested sure thank thanks that the them then these this thx to try u we with works y
        ya yeah yep yes yup both you your ack ja genau gerne bitte danke weiter mach oui d
        accord si claro vale sigue da adelante
        """,
    )
)
"""A message of only these agrees with something or spurs on."""

_PHRASES = re.compile(
    r"好的|好吧|好啊|好|可以|行吧|行|嗯+|是的|是|对的|对|没错|没问题|请?继续|接着(?:做|来|说|写|改)?|"
    r"(?:就|请)?[按照]照?(?:你|您|这个|上面|上述|刚才|之前|计划|方案)?的?(?:说|讲|建议|方案|计划|思路|想法|提议)?"
    r"的?(?:去|来)?(?:做|办|改|写|执行|进行|实现|处理)?|"
    r"就?(?:这样|这么|那样)(?:做|办|来|改|定)?|同意|确认|开始|动手|做|去做|来|执行|谢谢|辛苦了?|收到|明白了?|"
    r"了解|不错|完美|棒|赞|请|吧|啊|呢|了|的|那|就|下一步|"
    r"はい|お願い(?:します|いたします)?|続けて(?:ください)?|続き|それで(?:いい|良い)?です?|進めて(?:ください)?|"
    r"了解(?:です|しました)?|ありがとう(?:ございます)?|"
    r"네|예|응|좋아요?|좋습니다|(?:계속|진행|그렇게)\s?(?:해\s?주세요|해\s?줘|하세요|해요?)?|"
    r"감사합니다|고마워요?|부탁(?:드립니다|드려요|해)?"
)
_WORD = re.compile(r"[^\W_]+")

_POINTS_BACK = re.compile(
    r"\b(?:option|variant|the (?:first|second|third|last|former|latter|other)|that|those|these|both|either|"
    r"it|above|your (?:plan|proposal|suggestion|idea)|as (?:you|we) (?:said|discussed))\b|"
    r"方案|第[一二三四五\d]|[这那](?:个|些|样|里)|上面|刚才|你说|你的|それ|その|案|그것|그\s|방안",
    re.IGNORECASE,
)
_FEW = 12
"""Words; or twice as many characters of a script without blanks."""


def is_consent(text: str) -> bool:
    """Whether a message only agrees or spurs on, in English, Chinese, Japanese or Korean."""
    text = text.strip()
    if not text or len(text) > _LONGEST:
        return False
    words = _WORD.findall(_PHRASES.sub(" ", text.casefold()))
    return all(word in _WORDS for word in words)


def needs_context(text: str) -> bool:
    """Whether a message needs the words it answers: a consent, or "option 2, but without the cache"."""
    if is_consent(text):
        return True
    few = len(text.split()) <= _FEW and len(text) <= _LONGEST and (text.isascii() or len(text) <= 2 * _FEW)
    return few and _POINTS_BACK.search(text) is not None
