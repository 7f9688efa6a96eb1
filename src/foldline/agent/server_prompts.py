"""Expands server prompts that the user's prompt calls, and reads server resources that it names."""

import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from foldline.context.conversation import as_resource
from foldline.context.harmless import clean_line
from foldline.protocol import FoldlineError, Part, TextPart, UserMessage

from .custom_commands import NAME, words_of
from .discovery import Custom
from .mcp.listing import ServerPrompt, Trouble
from .mcp.servers import Server
from .mcp.tools import outcome_of
from .state import AgentState
from .tools.text import one_line

if TYPE_CHECKING:
    from .tools import ToolOutcome

_RESOURCE: Final = re.compile(r"(?:^|(?<=[\s(\[{\"'，。：（]))@([\w.-]+):(\S+)")
_END: Final = ".,;:!?)]}\"'，。：）"
"""What may stand behind an address in a sentence."""
_OUTSIDE: Final = re.compile(r"[^\w.-]+")


def typed_name(name: str) -> str:
    """The name of a server, or of something of it, as it can be typed behind a sign."""
    return _OUTSIDE.sub("_", name).strip("._-")


def resource_rows(state: AgentState) -> Iterator[tuple[str, str, bool]]:
    """What may stand behind an `@`, what it is, and whether it is whole: behind a template more is typed."""
    for name, server in _servers(state).items():
        for each in server.resources:
            yield f"{name}:{each.uri}", clean_line(each.about), each.is_whole


def server_prompts(state: AgentState) -> dict[str, Custom]:
    """The prompts of the servers as commands: `/server:name`."""
    found = {}
    for called, (server, prompt) in _prompts(state).items():
        hint = " ".join(
            f"<{clean_line(name)}>" if needed else f"[{clean_line(name)}]"
            for name, needed in prompt.arguments
        )
        about = clean_line(one_line(prompt.about))
        found[called] = Custom("prompts", called, about, hint=hint, shown=f"MCP server {server.name}")
    return found


async def server_prompt(state: AgentState, called: str, given: str) -> str:
    """What a server's prompt says, with what was typed behind its name filled in.

    Raises:
        FoldlineError: something is missing, or the server does not give it.
    """
    from mcp.types import CallToolResult, TextContent

    server, prompt = _prompts(state)[called]
    values = _values(prompt, given)
    if missing := [name for name, needed in prompt.arguments if needed and not values.get(name)]:
        raise FoldlineError(f"/{called} needs {' and '.join(missing)}: type what that is behind it.")
    try:
        result = await server.prompt(prompt.name, values)
    except Trouble as trouble:
        raise FoldlineError(
            f"/{called} cannot be filled in: the MCP server {server.name} {trouble}."
        ) from None
    blocks: list[Any] = []
    for message in result.messages:
        if len(result.messages) > 1:
            blocks.append(TextContent(type="text", text=f"{message.role}:"))
        blocks.append(message.content)
    return (await _outcome(state, CallToolResult(content=blocks), server, 1)).text


async def with_resources(state: AgentState, prompt: UserMessage) -> UserMessage:
    """The prompt with what servers have of the resources it names, below the words of the user.

    Raises:
        FoldlineError: one cannot be read.
    """
    from_servers = _servers(state)
    found = dict.fromkeys((m[1], m[2]) for m in _RESOURCE.finditer(prompt.typed) if m[1] in from_servers)
    if not found:
        return prompt
    from mcp.types import CallToolResult, EmbeddedResource

    text, images = prompt.typed.rstrip(), list[Part]()
    for name, address in found:
        server = from_servers[name]
        listed = any(address == each.uri for each in server.resources)
        uri = address if listed else address.rstrip(_END)
        try:
            result = await server.read(uri)
        except Trouble as trouble:
            shown = one_line(f"{name}:{uri}")
            raise FoldlineError(f"@{shown} cannot be read: the MCP server {server.name} {trouble}.") from None
        blocks = [EmbeddedResource(type="resource", resource=each) for each in result.contents]
        outcome = await _outcome(state, CallToolResult(content=[*blocks]), server, len(found))
        text += as_resource(f"{name}:{uri}", outcome.text)
        images += outcome.images
    others = (part for part in prompt.parts if not isinstance(part, TextPart))
    return prompt.model_copy(update={"parts": (TextPart(text=text + prompt.piped), *others, *images)})


async def _outcome(state: AgentState, result: Any, server: Server, among: int) -> "ToolOutcome":
    """Clean, and clipped to its share of half the room that results have: the prompt has to fit as well."""
    context = state.tool_context("", state.room_for_results() // 2 // among)
    return await outcome_of(result, context, server.prefix.rstrip("_"))


def _servers(state: AgentState) -> Mapping[str, Server]:
    """By what is typed; of two that are typed alike, the one of that very name, which comes last."""
    servers = {} if state.servers is None else state.servers.by_name
    by_name = sorted(servers.items(), key=lambda each: typed_name(each[0]) == each[0])
    return {typed_name(name): server for name, server in by_name}


def _prompts(state: AgentState) -> dict[str, tuple[Server, ServerPrompt]]:
    return {
        called: (server, prompt)
        for name, server in _servers(state).items()
        for prompt in server.prompts
        if NAME.fullmatch(called := f"{name}:{typed_name(prompt.name)}")
    }


def _values(prompt: ServerPrompt, given: str) -> dict[str, str]:
    """A word for each argument, in order; the last one has the rest."""
    names = [name for name, _ in prompt.arguments]
    words = words_of(given)
    if len(names) == 1:
        words = [given] if given else []
    elif len(words) > len(names) > 0:
        words = [*words[: len(names) - 1], " ".join(words[len(names) - 1 :])]
    return {name: word for name, word in zip_longest(names, words[: len(names)]) if word}
