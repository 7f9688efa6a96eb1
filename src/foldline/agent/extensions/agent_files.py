"""Agents defined in Markdown files, and the two built-in agents.

An agent file sets a subagent's prompt, tools and model. The format is Claude Code's
(https://code.claude.com/docs/en/sub-agents).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from foldline.agent.project.discovery import NO_FRONT_MATTER, Extension, front_matter
from foldline.compaction import load_prompt
from foldline.text.harmless import clean_line

from .custom_commands import NAME

BUILT_IN = ("explore", "general")
USUAL = "general"
"""Name of the default agent."""
_SESSION_MODEL = frozenset({"inherit", "default", "sonnet", "opus", "haiku", "fable"})
"""Model names from Claude Code that stand for the session's model.

No provider has models with these names.
"""
NO_BODY = "it has no text below its front matter"
BAD_NAME = "its name {name!r} is invalid: use only letters, digits, hyphens and dots"
NO_DESCRIPTION = (
    "it has no description; the model needs one to know when to use the agent"
)
BAD_STEPS = "its maxTurns {steps!r} is not a positive whole number"


@lru_cache(maxsize=512)
def parsed_agent(data: bytes, parts: Sequence[str]) -> Extension:
    """Parse an agent file.

    Args:
        parts: parts of the file's path below the agents folder, without `.md`.

    Raises:
        ValueError: the file is not a valid agent. The message is a clause that states the reason.
    """
    fields, body = front_matter(data.decode("utf-8", "replace"))
    if fields is None:
        raise ValueError(NO_FRONT_MATTER)
    if not body.strip():
        raise ValueError(NO_BODY)
    name = str(fields.get("name") or parts[-1]).strip()
    if not NAME.fullmatch(name):
        raise ValueError(BAD_NAME.format(name=name))
    description = clean_line(str(fields.get("description", "")).strip())
    if not description:
        raise ValueError(NO_DESCRIPTION)
    model = str(fields.get("model", "")).strip()
    steps = str(fields.get("maxTurns", ""))
    if steps and (not steps.isdecimal() or int(steps) == 0):
        raise ValueError(BAD_STEPS.format(steps=steps))
    return Extension(
        "agents",
        name,
        description,
        body.strip(),
        tools=None if fields.get("tools", "") == "" else _listed(fields["tools"]),
        without_tools=_listed(fields.get("disallowedTools", "")),
        only_reads=fields.get("permissionMode")
        == "plan",  # other modes would allow more than the user has
        steps=int(steps or 0),
        model="" if model in _SESSION_MODEL else model,
    )


def _listed(tools: object) -> tuple[str, ...]:
    """Return names from a list or a comma-separated string."""
    names = tools if isinstance(tools, list) else str(tools).split(",")
    stripped = [str(name).strip() for name in names]
    return tuple(filter(None, stripped))


def built_in() -> Mapping[str, Extension]:
    """Return the built-in agents by name.

    Reads their prompts from disk.
    """
    agents = {}
    for name in BUILT_IN:
        prompt = load_prompt(f"agent-{name}")
        agents[name] = replace(parsed_agent(prompt.encode(), (name,)), shown="built in")
    return agents
