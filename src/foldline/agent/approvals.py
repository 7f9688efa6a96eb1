"""Approvals: which tool calls run at once and which wait for the user. State, never prose (DESIGN §5, 10)."""

import re
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

Level = Literal["read", "edit", "run"]
"""What a tool can do: only look, change files it names, or run anything."""

Mode = Literal["ask", "edits", "all"]
"""What needs no question: reads; reads and edits; everything."""


class Rule(NamedTuple):
    """An "always for this session". `words` are the leading words of a command, or all of it where
    `exact`."""

    name: str
    words: tuple[str, ...] = ()
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Policy:
    mode: Mode = "ask"
    always: frozenset[Rule] = field(default_factory=frozenset)


def decide(
    policy: Policy, tool_level: Level, name: str, title: str, inside_cwd: bool
) -> Literal["allow", "ask"]:
    """Whether a call may run now.

    `title` is the tool's one-line title: for `bash`, the whole command. `inside_cwd` is false where the call
    reaches outside the working directory; that always asks, whatever was allowed before, except in mode
    `all`.
    """
    if policy.mode == "all":
        return "allow"
    if not inside_cwd:
        return "ask"
    match tool_level:
        case "read":
            return "allow"
        case "edit":
            allowed = policy.mode == "edits" or Rule(name) in policy.always
        case "run":
            allowed = any(_covers(rule, name, title) for rule in policy.always)
    return "allow" if allowed else "ask"


def allow_always(policy: Policy, name: str, title: str, *, inside_cwd: bool = True) -> Policy:
    """The policy after the user answered "always" to this call.

    A command is remembered by its leading words where these say what it does (`git status`, `pytest`); as the
    exact command where it is compound, or starts something that runs other commands. What reaches outside the
    working directory is not remembered: it asks each time.
    """
    if not inside_cwd:
        return policy
    return replace(policy, always=policy.always | {rule_for(name, title)})


def rule_for(name: str, title: str) -> Rule:
    """The rule "always" makes of a call: shown to the user before it is granted."""
    if name != "bash":
        return Rule(name)
    prefix = _prefix(title)
    return Rule(name, prefix) if prefix else Rule(name, (title.strip(),), exact=True)


_COMPOUND = re.compile(r"[;&|<>`\n\r⏎]|\$\(|\$\{|\$'")
"""What lets one command line run, or write, more than its first words say. `⏎` is a line end in titles."""

_PLAIN = re.compile(r"[A-Za-z][\w.:-]*")

_WORDS = {
    **dict.fromkeys(("git", "cargo", "go", "docker", "kubectl", "pip", "uv", "poetry", "npm", "pnpm"), 2),
    **dict.fromkeys(("yarn", "alembic", "conda", "brew", "apt", "apt-get", "systemctl", "terraform"), 2),
    **dict.fromkeys(("npm run", "pnpm run", "yarn run", "uv run", "poetry run", "uv pip"), 3),
    **dict.fromkeys(("docker compose", "python -m", "python3 -m"), 3),
}
"""How many leading words say what a command does, where one is not enough."""

_RUNS_OTHERS = re.compile(
    r"""sh|bash|zsh|dash|fish|env|sudo|su|doas|xargs|eval|exec|source|command|nohup|time|timeout|nice|setsid|ssh
    |python[\d.]*|node|deno|bun|perl|ruby|php|lua|awk|find|npx|pnpx|uvx|rm|mv|dd|chmod|chown|kill|pkill""",
    re.VERBOSE,
)
"""Programs whose name says too little: they run other commands, or destroy what their arguments name."""


def _prefix(command: str) -> tuple[str, ...]:
    """The leading words that say what a simple command does; empty where only the exact command will do."""
    if _COMPOUND.search(command):
        return ()
    words = command.split()
    if not words:
        return ()
    needed = max((_WORDS.get(" ".join(words[:count]), 1) for count in (1, 2)), default=1)
    prefix = tuple(words[:needed])
    if needed == 1:
        return prefix if _PLAIN.fullmatch(words[0]) and not _RUNS_OTHERS.fullmatch(words[0]) else ()
    if len(prefix) < needed or not _PLAIN.fullmatch(prefix[-1]) or _RUNS_OTHERS.fullmatch(prefix[-1]):
        return ()
    return prefix


def _covers(rule: Rule, name: str, title: str) -> bool:
    if rule.name != name:
        return False
    if name != "bash":
        return True
    if rule.exact:
        return rule.words == (title.strip(),)
    return rule.words == _prefix(title)
