"""What a server lists: tools, resources and prompts; and what of that the package would refuse, taken out."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from foldline.protocol import FoldlineError

if TYPE_CHECKING:
    from mcp import Client

_PAGES = 100
"""A listing with more pages than that has no end."""
_MOST = 5_000
"""Resources that are kept of one server: they are looked through while somebody types."""


class Trouble(FoldlineError):
    """What went wrong with a server, as words that follow its name."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A tool as its server describes it."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that can be read; of a template the address up to where something is to be filled in."""

    uri: str
    about: str
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class ServerPrompt:
    """A prompt as its server describes it."""

    name: str
    about: str
    arguments: Sequence[tuple[str, bool]]
    """The name of each, and whether it must be given."""


@dataclass(frozen=True, slots=True)
class Listing:
    """All that a server offers, in its order; and what of its tools is none, each with the reason."""

    tools: Sequence[Listed]
    broken: Sequence[str] = ()
    resources: Sequence[Resource] = ()
    prompts: Sequence[ServerPrompt] = ()


def mended(result: Any, broken: list[str]) -> None:
    """Of a result that lists tools, take out in place what the package would refuse, and all else with it.

    What is taken out is added to `broken`. Of the others only what is used here stays.
    """
    tools = result.get("tools") if isinstance(result, dict) else None
    if not isinstance(tools, list):
        return
    kept = []
    for tool in tools:
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str) or not name:
            broken.append("one without a name")
        elif not isinstance(schema := tool.get("inputSchema"), dict):
            broken.append(f"{name} (it has no schema)")
        elif schema.get("type", "object") != "object":
            broken.append(f"{name} (its arguments are {str(schema['type'])[:40]}, not an object)")
        elif isinstance(how := tool.get("execution"), dict) and how.get("taskSupport") == "required":
            broken.append(f"{name} (it is called as a task only)")
        else:
            words = {key: tool[key] for key in ("title", "description") if isinstance(tool.get(key), str)}
            kept.append({"name": name, **words, "inputSchema": {**schema, "type": "object"}})
    result["tools"] = kept


async def listing_of(client: "Client", broken: list[str], note: Callable[[str], None]) -> Listing:
    """All that the server offers. Resources and prompts are extras: without them its tools are there all the
    same, and `note` gets why.

    Raises:
        Trouble: its tools have no end.
    """
    broken.clear()
    tools = [
        Listed(tool.name, tool.description or tool.title or tool.name, tool.input_schema)
        for tool in await _paged(client.list_tools, "tools")
    ]
    offers = client.server_capabilities
    try:
        resources = await _resources(client) if offers.resources else []
        prompts = await _prompts(client) if offers.prompts else []
    except Exception as error:  # noqa: BLE001 - whatever the package raises, it is about this server
        note(f"its resources and prompts could not be listed: {str(error)[:500]}")
        resources, prompts = [], []
    return Listing(tools, tuple(broken), resources, prompts)


async def _resources(client: "Client") -> list[Resource]:
    found = [
        Resource(each.uri, each.title or each.name)
        for each in await _paged(client.list_resources, "resources")
    ]
    found += [
        Resource(each.uri_template.partition("{")[0], each.title or each.name, is_whole=False)
        for each in await _paged(client.list_resource_templates, "resource_templates")
    ]
    return [each for each in found if each.uri.isprintable() and " " not in each.uri][:_MOST]


async def _prompts(client: "Client") -> list[ServerPrompt]:
    return [
        ServerPrompt(
            each.name,
            each.description or each.title or each.name,
            [(argument.name, bool(argument.required)) for argument in each.arguments or ()],
        )
        for each in await _paged(client.list_prompts, "prompts")
    ]


async def _paged(listed: Callable[..., Awaitable[Any]], kind: str) -> list[Any]:
    found: list[Any] = []
    cursor: str | None = None
    for _ in range(_PAGES):
        page = await listed(cursor=cursor)
        found += getattr(page, kind)
        cursor = page.next_cursor
        if not cursor:
            return found
    raise Trouble(f"lists {kind.replace('_', ' ')} on more than {_PAGES} pages")
