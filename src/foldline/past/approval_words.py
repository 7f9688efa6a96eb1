"""Descriptions of approvals, rules and modes for screens, pages and commands."""

from collections.abc import Sequence

from foldline.protocol import Approval, ApprovalMode, Rule
from foldline.protocol.entries import ApprovalScope

EVERY_TOOL = "every {} tool"
EXACTLY_THIS = "exactly this command"
IN_FOLDER = "any {} inside this folder"


def rule_words(rule: Rule) -> str:
    """Describe a rule: `bash: git status …`, `bash: exactly make -j4` or `edit`."""
    if not rule.pattern and rule.tool.endswith("*"):
        return EVERY_TOOL.format(rule.tool[:-1].rstrip("_"))
    if not rule.pattern:
        return rule.tool
    if rule.exact:
        return f"{rule.tool}: exactly {rule.pattern}"
    if rule.tool == "bash":
        return f"bash: {rule.pattern} …" + ("" if rule.part else ", alone")
    return f"{rule.tool}: {rule.pattern}"


def rules_grant(rules: Sequence[Rule]) -> str:
    """Describe the calls that these rules allow in addition to the current call."""
    *first_grants, last_grant = map(_grant, rules)
    return f"{', '.join(first_grants)} and {last_grant}" if first_grants else last_grant


def _grant(rule: Rule) -> str:
    if rule.exact:
        return EXACTLY_THIS
    if rule.pattern:
        return (
            f"{rule.pattern} …"
            if rule.tool == "bash"
            else f"{rule.tool} {rule.pattern}"
        )
    if rule.tool.endswith("*"):
        return rule_words(rule)
    if rule.tool.startswith("mcp__"):
        return f"any {rule.tool}"
    return IN_FOLDER.format(rule.tool)


_SCOPES: dict[ApprovalScope, str] = {
    "session": "in this session",
    "project": "in this project",
}
_MODES: dict[ApprovalMode, str] = {
    "ask": "you are asked before edits and commands",
    "edits": "edits need no approval, commands do",
    "sandboxed": "calls that stay inside the sandbox need no approval, others do",
    "read-only": "nothing is changed, and commands can only read, in the sandbox",
    "all": "nothing needs approval",
    "plan": "nothing is changed and no command runs until you accept a plan",
}


def mode_words(mode: ApprovalMode) -> str:
    return _MODES[mode]


def approval_words(entry: Approval) -> str:
    """Describe the user's decision, for lists and the transcript."""
    words = []
    if entry.mode is not None:
        words.append(f"mode {entry.mode}: {_MODES[entry.mode]}")
    if entry.rule is not None:
        verb = "always allowed" if entry.granted else "no longer allowed without asking"
        words.append(f"{verb} {_SCOPES[entry.scope]}: {rule_words(entry.rule)}")
    return "; ".join(words) or "an empty approval"
