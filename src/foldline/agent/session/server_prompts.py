"""Expands tool servers' prompts that the user calls, and reads resources named in the user's prompt."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from foldline.agent.extensions.custom_commands import NAME, words_of
from foldline.agent.extensions.mcp.listing import Trouble, description_of
from foldline.agent.extensions.mcp.servers import ToolServer
from foldline.agent.extensions.mcp.tools import outcome_of
from foldline.agent.project.discovery import Extension
from foldline.agent.tools import ToolOutcome
from foldline.protocol import (
    FoldlineError,
    Part,
    TextPart,
    UserMessage,
    text_parts,
)
from foldline.text.harmless import clean_line, escaped_line
from foldline.text.tags import resource_part

from .context_budget import ContextBudget
from .toolset import Toolset

if TYPE_CHECKING:
    from mcp.types import Prompt

_RESOURCE = re.compile(r"(?:^|(?<=[\s(\[{\"'，。：（]))@([\w.-]+):(\S+)")
_PUNCTUATION = ".,;:!?)]}\"'，。：）"
"""Characters that may follow an address at the end of a phrase or sentence."""
_UNTYPABLE = re.compile(r"[^\w.-]+")
MISSING = "/{command} needs {names}. Type values for them after the command."
NOT_EXPANDED = "/{command} could not be expanded: the MCP server {server} {reason}."
NOT_READ = "@{address} could not be read: the MCP server {server} {reason}."


def typed_name(name: str) -> str:
    """Return the name of a server or prompt as the user types it."""
    return _UNTYPABLE.sub("_", name).strip("._-")


def resource_rows(tools: Toolset) -> Iterator[tuple[str, str, bool]]:
    """Yield the addresses that can follow `@`, each with a description and whether it is complete.

    The address of a resource template is incomplete: the user types the rest.
    """
    for name, server in _servers(tools).items():
        for resource in server.resources:
            yield (
                f"{name}:{resource.uri}",
                clean_line(resource.about),
                resource.is_whole,
            )


def server_prompts(tools: Toolset) -> dict[str, Extension]:
    """Return the tool servers' prompts as commands: `/server:name`."""
    commands = {}
    for command, (server, prompt) in _prompts(tools).items():
        hints = []
        for argument in prompt.arguments or ():
            name = clean_line(argument.name)
            hints.append(f"<{name}>" if argument.required else f"[{name}]")
        commands[command] = Extension(
            "prompts",
            command,
            description=clean_line(escaped_line(description_of(prompt))),
            hint=" ".join(hints),
            shown=f"MCP server {server.name}",
        )
    return commands


async def server_prompt(budget: ContextBudget, command: str, arguments: str) -> str:
    """Return the text of a server's prompt.

    Raises:
        FoldlineError: an argument is missing, or the server failed.
    """
    from mcp.types import CallToolResult, TextContent

    server, prompt = _prompts(budget.tools)[command]
    values = _argument_values(prompt, arguments)
    missing = [
        argument.name
        for argument in prompt.arguments or ()
        if argument.required and not values.get(argument.name)
    ]
    if missing:
        raise FoldlineError(MISSING, command=command, names=" and ".join(missing))
    try:
        result = await server.prompt(prompt.name, values)
    except Trouble as trouble:
        raise FoldlineError(
            NOT_EXPANDED, command=command, server=server.name, reason=trouble
        ) from None
    blocks: list[Any] = []
    for message in result.messages:
        if len(result.messages) > 1:
            blocks.append(TextContent(type="text", text=f"{message.role}:"))
        blocks.append(message.content)
    outcome = await _outcome(budget, CallToolResult(content=blocks), server, 1)
    return outcome.text


async def with_resources(budget: ContextBudget, prompt: UserMessage) -> UserMessage:
    """Append the server resources that a prompt names, and return the prompt.

    Raises:
        FoldlineError: a resource cannot be read.
    """
    servers = _servers(budget.tools)
    matches = _RESOURCE.finditer(prompt.typed)
    addresses = dict.fromkeys(
        (match[1], match[2]) for match in matches if match[1] in servers
    )
    if not addresses:
        return prompt
    attached: list[Part] = []
    images: list[Part] = []
    for name, address in addresses:
        server = servers[name]
        uri = address
        if not any(resource.uri == address for resource in server.resources):
            uri = address.rstrip(_PUNCTUATION)
        outcome = await _read_resource(
            budget, server, f"{name}:{uri}", uri, len(addresses)
        )
        attached.append(resource_part(f"{name}:{uri}", outcome.text))
        images += outcome.images
    return with_attached(prompt, attached, images)


def with_attached(
    prompt: UserMessage, attached: Sequence[Part], images: Sequence[Part] = ()
) -> UserMessage:
    """Insert text after a prompt's typed text, before the prompt's other parts, and append images."""
    typed = text_parts(prompt.typed.rstrip())
    others = [
        part
        for part in prompt.parts
        if not isinstance(part, TextPart) or part.origin != "typed"
    ]
    parts = (*typed, *attached, *others, *images)
    return prompt.model_copy(update={"parts": parts})


async def _read_resource(
    budget: ContextBudget,
    server: ToolServer,
    typed: str,
    uri: str,
    count: int,
) -> ToolOutcome:
    from mcp.types import CallToolResult, EmbeddedResource

    try:
        result = await server.read(uri)
    except Trouble as trouble:
        raise FoldlineError(
            NOT_READ, address=escaped_line(typed), server=server.name, reason=trouble
        ) from None
    blocks = [
        EmbeddedResource(type="resource", resource=content)
        for content in result.contents
    ]
    return await _outcome(budget, CallToolResult(content=[*blocks]), server, count)


async def _outcome(
    budget: ContextBudget,
    result: Any,
    server: ToolServer,
    count: int,
) -> ToolOutcome:
    """Sanitise a result, and shorten it to its share of the room for results.

    All `count` results together get half of this room, because the prompt must fit as well.
    """
    context = budget.tools.context("", budget.room_for_results() // 2 // count)
    return await outcome_of(result, context, server.prefix.rstrip("_"))


def _servers(tools: Toolset) -> Mapping[str, ToolServer]:
    """Return the servers by typed name.

    If two servers have the same typed name, that name means the server whose real name equals it.
    """
    if tools.servers is None:
        return {}
    items = tools.servers.by_name.items()
    exact_last = sorted(items, key=lambda item: typed_name(item[0]) == item[0])
    return {typed_name(name): server for name, server in exact_last}


def _prompts(tools: Toolset) -> dict[str, tuple[ToolServer, "Prompt"]]:
    prompts = {}
    for name, server in _servers(tools).items():
        for prompt in server.prompts:
            command = f"{name}:{typed_name(prompt.name)}"
            if NAME.fullmatch(command):
                prompts[command] = (server, prompt)
    return prompts


def _argument_values(prompt: "Prompt", arguments: str) -> dict[str, str]:
    """Assign the typed words to a prompt's arguments.

    The last argument gets all remaining words.
    """
    names = [argument.name for argument in prompt.arguments or ()]
    words = words_of(arguments)
    if len(names) == 1:
        words = [arguments]
    elif len(words) > len(names) > 0:
        last = len(names) - 1
        words = [*words[:last], " ".join(words[last:])]
    pairs = zip_longest(names, words[: len(names)])
    return {name: word for name, word in pairs if word}
