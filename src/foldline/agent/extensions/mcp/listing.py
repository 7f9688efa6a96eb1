"""Lists a server's tools, resources and prompts, except tools that the `mcp` package would reject."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from foldline.protocol import FoldlineError

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import Prompt, Tool

NAMELESS = "one without a name"
NO_SCHEMA = "{name} (it has no schema)"
NO_OBJECT = "{name} (its arguments are {type}, not an object)"
ONLY_A_TASK = "{name} (it can be called only as a task)"
ENDLESS = "lists its {items} on more than {pages} pages"
UNLISTED = "its resources and prompts could not be listed: {error}"
_PAGES = 100
"""Maximum number of pages in a listing. Longer listings are an error."""
_MOST_RESOURCES = 5_000
"""Maximum number of resources of one server; others are ignored.

The limit exists because the resources are searched at each key press.
"""


class Trouble(FoldlineError):
    """Raised if a tool server failed.

    The message follows the server's name in a sentence.
    """


@dataclass(frozen=True, slots=True)
class Resource:
    """A readable resource, or a resource template."""

    uri: str
    """The URI; for a template, the part before its first variable."""
    about: str
    is_whole: bool = True
    """Whether this is a resource rather than a template."""


@dataclass(frozen=True, slots=True)
class ServerListing:
    """Everything that a server offers, in the server's order."""

    tools: "Sequence[Tool]"
    broken: Sequence[str] = ()
    """A description of each invalid tool, with the reason."""
    resources: Sequence[Resource] = ()
    prompts: "Sequence[Prompt]" = ()


def remove_broken_tools(result: Any, broken: list[str]) -> None:
    """Remove invalid tools from a listing, in place.

    The `mcp` package rejects the whole listing if a single tool is invalid. Fields that Foldline does not use
    are removed from the other tools.

    Args:
        broken: list to which a description of each removed tool is added.
    """
    tools = result.get("tools") if isinstance(result, dict) else None
    if not isinstance(tools, list):
        return
    usable = []
    for tool in tools:
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str) or not name:
            broken.append(NAMELESS)
            continue
        schema = tool.get("inputSchema")
        execution = tool.get("execution")
        if not isinstance(schema, dict):
            broken.append(NO_SCHEMA.format(name=name))
        elif schema.get("type", "object") != "object":
            kind = str(schema["type"])[:40]
            broken.append(NO_OBJECT.format(name=name, type=kind))
        elif isinstance(execution, dict) and execution.get("taskSupport") == "required":
            broken.append(ONLY_A_TASK.format(name=name))
        else:
            words = {
                key: tool[key]
                for key in ("title", "description")
                if isinstance(tool.get(key), str)
            }
            usable.append(
                {"name": name, **words, "inputSchema": {**schema, "type": "object"}}
            )
    result["tools"] = usable


async def listing_of(
    client: "Client", broken: list[str], note: Callable[[str], None]
) -> ServerListing:
    """List everything that a server offers.

    If resources and prompts cannot be listed, they are left out.

    Args:
        broken: list for descriptions of invalid tools (see `remove_broken_tools`).
        note: called with the reason if resources and prompts cannot be listed.

    Raises:
        Trouble: the list of tools has too many pages.
    """
    broken.clear()
    tools = await _all_pages(client.list_tools, "tools")
    capabilities = client.server_capabilities
    try:
        resources = await _resources(client) if capabilities.resources else []
        prompts = []
        if capabilities.prompts:
            prompts = await _all_pages(client.list_prompts, "prompts")
    except Exception as error:  # noqa: BLE001 - any error of the package concerns only this server
        note(UNLISTED.format(error=str(error)[:500]))
        resources = []
        prompts = []
    return ServerListing(tools, tuple(broken), resources, prompts)


def description_of(item: "Tool | Prompt") -> str:
    """Return the description of a tool or prompt, or the best replacement for it."""
    return item.description or item.title or item.name


async def _resources(client: "Client") -> list[Resource]:
    resources = [
        Resource(resource.uri, resource.title or resource.name)
        for resource in await _all_pages(client.list_resources, "resources")
    ]
    for template in await _all_pages(
        client.list_resource_templates, "resource_templates"
    ):
        start = template.uri_template.partition("{")[0]
        resources.append(
            Resource(start, template.title or template.name, is_whole=False)
        )
    usable = [
        resource
        for resource in resources
        if resource.uri.isprintable() and " " not in resource.uri
    ]
    return usable[:_MOST_RESOURCES]


async def _all_pages(list_page: Callable[..., Awaitable[Any]], kind: str) -> list[Any]:
    items: list[Any] = []
    cursor: str | None = None
    for _ in range(_PAGES):
        page = await list_page(cursor=cursor)
        items += getattr(page, kind)
        cursor = page.next_cursor
        if not cursor:
            return items
    raise Trouble(ENDLESS, items=kind.replace("_", " "), pages=_PAGES)
