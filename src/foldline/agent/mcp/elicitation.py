"""What a server asks the user: a form, one question for each of its fields, or a page to be opened."""

import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from foldline.context.harmless import clean_line, with_signs
from foldline.protocol.events import Option

from ..tools.text import one_line
from .sign_in import open_page

if TYPE_CHECKING:
    from mcp.types import ElicitRequestParams, ElicitResult

    from ..approvals import Choices

Ask = Callable[[str, "ElicitRequestParams"], Coroutine[Any, Any, "ElicitResult"]]
"""Takes the name of a server, and what it asks."""

_DECLINE, _LEAVE_OUT, _TYPE = "d", "o", "t"
_MOST_OPTIONS = 7
"""Values that are offered with a key each; of more, one is typed."""
_BOUNDS: Sequence[tuple[str, Callable[[Any, Any], bool], str]] = (
    ("minimum", lambda value, bound: value >= bound, "at least {}"),
    ("maximum", lambda value, bound: value <= bound, "at most {}"),
    ("minLength", lambda value, bound: len(value) >= bound, "at least {} characters"),
    ("maxLength", lambda value, bound: len(value) <= bound, "at most {} characters"),
)


class Declined(Exception):
    """The user does not want to say."""


class Left(Exception):
    """The user has left the question."""


async def elicited(choices: "Choices", server: str, wanted: "ElicitRequestParams") -> "ElicitResult":
    """The user's answer to what a server asks."""
    from mcp.types import ElicitRequestURLParams, ElicitResult

    try:
        if isinstance(wanted, ElicitRequestURLParams):
            title = f"The MCP server {clean_line(server)} wants a page opened."
            # The address first: a message of any length may stand before what is on the screen.
            detail = f"{clean_line(wanted.url)}\n{wanted.message}"
            await _agree(choices, title, "open it in the browser", detail)
            await open_page(wanted.url)
            return ElicitResult(action="accept")
        return ElicitResult(action="accept", content=await _form(choices, server, wanted))
    except Declined:
        return ElicitResult(action="decline")
    except Left:
        return ElicitResult(action="cancel")


async def _agree(choices: "Choices", title: str, label: str, detail: str) -> None:
    """Returns where the user agrees, as `label` says.

    Raises:
        Declined, Left: the user does not.
    """
    options = [Option(key="y", label=label, agrees=True), Option(key=_DECLINE, label="decline")]
    word = await choices.ask(title, options, with_signs(detail))
    if word.key != "y":
        raise Declined if word.key else Left


async def _form(choices: "Choices", server: str, wanted: Any) -> dict[str, Any]:
    """The values by field.

    Raises:
        Declined, Left: there are none.
    """
    fields = wanted.requested_schema.get("properties") or {}
    required = wanted.requested_schema.get("required") or ()
    values: dict[str, Any] = {}
    title = f"The MCP server {clean_line(server)} asks"
    if not fields:
        await _agree(choices, f"{title}.", "yes", wanted.message)
    for nth, (name, field) in enumerate(fields.items(), 1):
        where = f"{title} ({nth} of {len(fields)})." if len(fields) > 1 else f"{title}."
        asked = [wanted.message, f"{field.get('title') or name}: {field.get('description') or ''}"]
        value = await _value(choices, where, field, asked, optional=name not in required)
        if value is not None:
            values[name] = value
    return values


async def _value(
    choices: "Choices", title: str, field: Mapping[str, Any], asked: Sequence[str], *, optional: bool
) -> Any:
    """The value of a field; None where it is left out. What is no such value is asked for once more.

    Raises:
        Declined, Left: the user does not say.
    """
    named = _named_values(field)
    first = next((text for text, value in named.items() if value == field.get("default")), "")
    typed = first or str(field.get("default", ""))
    if isinstance(field.get("default"), list):
        typed = ", ".join(map(str, field["default"]))
    is_listed = 0 < len(named) <= _MOST_OPTIONS and field.get("type") != "array"
    options = [Option(key=str(nth), label=one_line(text)) for nth, text in enumerate(named, 1)] * is_listed
    options += [Option(key=_LEAVE_OUT, label="leave it out")] * optional
    options.append(Option(key=_DECLINE, label="decline"))
    if not is_listed:
        options.append(Option(key=_TYPE, label="Answer, typed here", asks="line", usual=typed))
    lines = [*asked, *(f"One of: {', '.join(named)}" for _ in (0,) if named and not is_listed)]
    trouble = ""
    while True:
        detail = "\n".join(map(with_signs, filter(None, (*lines, trouble))))
        word = await choices.ask(title, options, detail)
        text = word.text.strip()
        match word.key:
            case "":
                raise Left
            case "d":
                raise Declined
            case "o":
                return None
            case "t":
                try:
                    return _typed_value(field, named, text)
                except ValueError as problem:
                    trouble = f"{one_line(text)!r} was not taken: {problem}."
            case _:
                return [*named.values()][int(word.key) - 1]


def _named_values(field: Mapping[str, Any]) -> dict[str, Any]:
    """The values there are, by what they are called; empty where any may be typed."""
    if field.get("type") == "boolean":
        return {"yes": True, "no": False}
    items = field.get("items") if field.get("type") == "array" else field
    if not isinstance(items, Mapping):
        return {}
    titled = items.get("oneOf") or items.get("anyOf")
    if isinstance(titled, list):
        return {str(each.get("title") or each["const"]): each["const"] for each in titled if "const" in each}
    values = items.get("enum") or ()
    names = items.get("enumNames") or values
    return {str(name): value for name, value in zip(names, values, strict=False)}


def _typed_value(field: Mapping[str, Any], named: Mapping[str, Any], text: str) -> Any:
    """
    Raises:
        ValueError: it is no value of the field; why, as the end of a sentence.
    """
    kind = field.get("type")
    is_list = kind == "array"
    if named:
        words = [word.strip() for word in text.split(",") if word.strip()] if is_list else [text]
        if unknown := [word for word in words if word not in named]:
            raise ValueError(f"there is no {unknown[0]}")
        return [named[word] for word in words] if is_list else named[text]
    value: Any = text
    if kind in ("integer", "number"):
        try:
            value = int(text) if kind == "integer" else float(text)
        except ValueError:
            value = math.nan
        if isinstance(value, float) and not math.isfinite(value):  # JSON has no word for it
            raise ValueError("it takes a whole number" if kind == "integer" else "it takes a number")
    for word, holds, says in _BOUNDS:
        bound = field.get(word)
        is_meant = isinstance(bound, int | float) and word.endswith("Length") == isinstance(value, str)
        if is_meant and not holds(value, bound):
            raise ValueError(f"it takes {says.format(bound)}")
    return value
