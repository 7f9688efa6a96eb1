"""Asks the user what a server wants to know: one question for each field of a form, or a page to open."""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from pydantic import FiniteFloat, TypeAdapter

from foldline.json_text import JsonObject
from foldline.protocol.events import Option
from foldline.text.harmless import clean_line, escaped_line, with_signs

from .sign_in import open_page

if TYPE_CHECKING:
    from mcp.types import ElicitRequestParams, ElicitRequestURLParams, ElicitResult

    from foldline.agent.permissions.approvals import Choices

Ask = Callable[[str, "ElicitRequestParams"], Coroutine[Any, Any, "ElicitResult"]]
"""Asks the user a question from a server.

Takes the server's name and the question.
"""

WANTS_PAGE = "The MCP server {server} wants to open a page."
ASKS = "The MCP server {server} asks."
OPEN_PAGE = "Open in the browser"
YES = "Yes"
DECLINE = "Decline"
SKIP = "Skip"
ONE_OF = "One of: {names}"
INVALID = "{text} is not a valid answer."
_MOST_CHOICES = 7
"""Maximum number of values that are offered as choices.

If there are more, the user has to type the value.
"""
_NUMBERS = {"integer": int, "number": FiniteFloat}  # JSON has no NaN or infinity


async def elicited(
    choices: "Choices", server: str, request: "ElicitRequestParams"
) -> "ElicitResult":
    """Ask the user a question from a server.

    Returns the result for the server.
    """
    from mcp.types import ElicitRequestURLParams, ElicitResult

    if isinstance(request, ElicitRequestURLParams):
        return await _page(choices, server, request)
    title = ASKS.format(server=clean_line(server))
    schema = request.requested_schema
    fields = schema.get("properties") or {}
    required_names = schema.get("required") or ()
    values: JsonObject = {}
    if not fields:
        detail = with_signs(request.message)
        answer = await choices.ask_in_words(title, [YES, DECLINE], detail)
        if answer != YES:
            return ElicitResult(action="decline" if answer else "cancel")
    for name, field in fields.items():
        label = f"{field.get('title') or name}: {field.get('description') or ''}"
        detail = f"{request.message}\n{label}"
        ways_out = [DECLINE] if name in required_names else [SKIP, DECLINE]
        answer, value = await _value(
            choices,
            title,
            field,
            detail,
            ways_out,
        )
        if value is not None:
            values[name] = value
        elif answer != SKIP:
            return ElicitResult(action="decline" if answer else "cancel")
    return ElicitResult(action="accept", content=values)


async def _page(
    choices: "Choices", server: str, request: "ElicitRequestURLParams"
) -> "ElicitResult":
    """Ask whether to open a page, and open it."""
    from mcp.types import ElicitResult

    # Put the address first, so that a long message cannot push it off the screen.
    detail = f"{clean_line(request.url)}\n{request.message}"
    options = [
        Option(key="y", label=OPEN_PAGE, agrees=True),
        Option(key="d", label=DECLINE),
    ]
    title = WANTS_PAGE.format(server=clean_line(server))
    answer = await choices.ask(title, options, with_signs(detail))
    if answer.key != "y":
        return ElicitResult(action="decline" if answer.key else "cancel")
    await open_page(request.url)
    return ElicitResult(action="accept")


async def _value(
    choices: "Choices",
    title: str,
    field: JsonObject,
    detail: str,
    ways_out: list[str],
) -> tuple[str, Any]:
    """Ask for the value of a field until the answer is valid.

    The server checks the value's range and length.

    Args:
        ways_out: answers that give no value.

    Returns:
        The answer, and its value. The answer is empty if the user dismissed the question. The value is None
        if the answer is one of `ways_out`, or empty.
    """
    allowed = _allowed_values(field)
    labels = list(allowed)
    if not allowed and "default" in field:
        labels = [str(field["default"])]
    if len(labels) > _MOST_CHOICES:
        detail += f"\n{ONE_OF.format(names=', '.join(labels))}"
        labels = []
    problem = ""
    while True:
        text = with_signs(detail + problem)
        answer = await choices.ask_in_words(title, [*labels, *ways_out], text)
        if answer in ("", *ways_out) and answer not in labels:
            return answer, None
        try:
            return answer, _parsed(field, allowed, answer)
        except (KeyError, ValueError):
            problem = f"\n{INVALID.format(text=repr(escaped_line(answer)))}"


def _allowed_values(field: JsonObject) -> JsonObject:
    """Return the allowed values of a field by name.

    Returns an empty mapping if any value can be typed.
    """
    if field.get("type") == "boolean":
        return {"yes": True, "no": False}
    items = field.get("items") if field.get("type") == "array" else field
    if not isinstance(items, dict):
        return {}
    titled = items.get("oneOf") or items.get("anyOf")
    if isinstance(titled, list):
        constants = [item for item in titled if "const" in item]
        return {
            str(item.get("title") or item["const"]): item["const"] for item in constants
        }
    return {str(value): value for value in items.get("enum") or ()}


def _parsed(field: JsonObject, allowed: JsonObject, text: str) -> Any:
    """Convert an answer to a value.

    Raises:
        KeyError, ValueError: the value is not allowed.
    """
    kind = field.get("type")
    if kind in _NUMBERS and not allowed:
        return TypeAdapter[Any](_NUMBERS[kind]).validate_python(text)
    if kind == "array":
        names = [name.strip() for name in text.split(",") if name.strip()]
        return [allowed[name] for name in names] if allowed else names
    return allowed[text] if allowed else text
