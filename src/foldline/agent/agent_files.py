"""Agents that people keep as Markdown files, and the two that come along: what each is told, its tools,
its model. The shape is Claude Code's (https://code.claude.com/docs/en/sub-agents)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from foldline.compaction import load_prompt
from foldline.context.harmless import clean_line

from .custom_commands import NAME
from .discovery import Custom, front_matter

BUILT_IN: Final = ("explore", "general")
USUAL: Final = "general"
"""The agent that works where none is named."""
_NOT_OURS: Final = frozenset({"inherit", "default", "sonnet", "opus", "haiku", "fable"})
"""Words for a model that mean the session's own here: no provider knows them by these names."""


@lru_cache(maxsize=512)
def parsed_agent(data: bytes, parts: Sequence[str]) -> Custom:
    """The agent in a file that lies there below its folder.

    Raises:
        ValueError: it is no agent; why, as the end of a sentence.
    """
    fields, body = front_matter(data.decode("utf-8", "replace"))
    if fields is None:
        raise ValueError("it does not begin with front matter")
    if not body.strip():
        raise ValueError("it says nothing below its front matter")
    name = str(fields.get("name") or parts[-1]).strip()
    if not NAME.fullmatch(name):
        raise ValueError(f"its name {name!r} has other signs than letters, digits, hyphens and dots")
    description = clean_line(str(fields.get("description", "")).strip())
    if not description:
        raise ValueError("it has no description, by which it is chosen")
    model = str(fields.get("model", "")).strip()
    steps = str(fields.get("maxTurns", ""))
    if steps and (not steps.isdecimal() or int(steps) == 0):
        raise ValueError(f"its maxTurns {steps!r} is no number of steps")
    return Custom(
        "agents",
        name,
        description,
        body.strip(),
        tools=None if fields.get("tools", "") == "" else _listed(fields["tools"]),
        without_tools=_listed(fields.get("disallowedTools", "")),
        only_reads=fields.get("permissionMode") == "plan",  # the other modes would ask for less than the user
        steps=int(steps or 0),
        model="" if model in _NOT_OURS else model,
    )


def _listed(tools: object) -> tuple[str, ...]:
    """Names from a list, or from one line with commas."""
    named = tools if isinstance(tools, list) else str(tools).split(",")
    return tuple(str(each).strip() for each in named if str(each).strip())


def built_in() -> Mapping[str, Custom]:
    """The agents that come along, by name. Reads their prompts."""
    named = ((name, f"agent-{name}") for name in BUILT_IN)
    return {
        name: replace(parsed_agent(load_prompt(file).encode(), (name,)), shown="built in")
        for name, file in named
    }
