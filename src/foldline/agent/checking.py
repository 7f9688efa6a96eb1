"""Whether what somebody set exists and may have that value; if not, a sentence says where and what may be."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from foldline.protocol import FoldlineError

from .layers import BY_NAME, KEY_SETTINGS, MODELS, Given, dotted
from .room import ALLOWED, ALLOWED_TOKENS, Amount

Fields = Mapping[str, FieldInfo]
"""Settings by their dotted keys."""
Tables = Mapping[str, Fields]
"""What may be set in the tables of each section whose tables have names, by section."""

_OF_WHAT = {"models": "model", "providers": "provider", "mcp": "tool server"}
_WITH_SECRETS = frozenset({"args", "env", "headers"})
"""Keys of a tool server whose values are nobody's business."""


def any_of(section: str) -> str:
    """Stands for one of the tables of a section in what people read."""
    return f'{section}."NAME"' if section == MODELS else f"{section}.NAME"


def is_secret(names: Sequence[str]) -> bool:
    """Whether a setting may hold a password, so that its value is not shown."""
    return len(names) > 2 and names[0] == "mcp" and names[2] in _WITH_SECRETS


def fields_of(model: type[BaseModel], before: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every setting of these sections, by its dotted key; what is keyed by free names is left out."""
    for name, field in model.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            yield from fields_of(section, f"{before}{name}.")
        elif get_origin(section) is not dict:
            yield f"{before}{name}", field


def checked(given: Given, keys: Fields, tables: Tables) -> object:
    """The value, if its key exists and it is one of those allowed.

    Raises:
        FoldlineError: there is no such key, or its value is not allowed.
    """
    if given.by_project and (why := _not_of_a_project(given.names)):
        raise FoldlineError(f"{given.origin}: a project may not set {given.key}: {why}.")
    field = _field(given.names, keys, tables)
    if field is None:
        raise FoldlineError(f"{given.origin}: {_unknown(given.names, keys, tables)}.")
    kind: Any = Annotated[field.annotation, field]
    try:
        value: object = TypeAdapter(kind).validate_python(given.value)
    except ValidationError:
        what = "that" if is_secret(given.names) else repr(given.value)
        raise FoldlineError(
            f"{given.origin}: {given.key} cannot be {what}; allowed: {allowed(field)}."
        ) from None
    if given.by_project and given.key == "approvals.mode" and value != "ask":
        # Whoever clones a project must not thereby agree to what its authors want run unasked.
        raise FoldlineError(
            f"{given.origin}: a project may set approvals.mode only to 'ask'; "
            "what runs unasked is set in your own settings, FOLDLINE_APPROVALS__MODE or --yes."
        )
    if given.by_project and given.key == "compaction.strategy" and ":" in str(value):
        # It is code that runs in the agent's own process.
        raise FoldlineError(
            f"{given.origin}: a project may set compaction.strategy only to one that comes with Foldline; "
            "a class of your own is set in your own settings, FOLDLINE_COMPACTION__STRATEGY or --strategy."
        )
    if given.key == "compaction.strategy" and ":" not in str(value):
        from foldline.compaction.loading import strategy_class

        try:
            strategy_class(str(value))
        except FoldlineError as unknown:
            raise FoldlineError(f"{given.origin}: {given.key}: {unknown}") from None
    return value


def _not_of_a_project(names: Sequence[str]) -> str:
    """Why a project may not set this; empty where it may."""
    match names:
        case ("model",) | ("compaction", "model" | "embedding_model"):
            return "whoever clones it would pay for what its authors want; your own settings and -m may"
        case ("provider" | "providers", *_):
            return "whoever clones it would send code and keys where its authors want; your own settings may"
        case ("mcp", *_):
            return "whoever clones it would run the programs its authors want; your own settings may"
        case ("keys", *_):
            return "what you press would do what its authors want; your own settings may"
    return ""


def _field(names: Sequence[str], keys: Fields, tables: Tables) -> FieldInfo | None:
    match names:
        case (section, name, key) if section in BY_NAME:
            return tables[section].get(key) if name.strip() else None
        case (section, name, key, _) if section in BY_NAME and name.strip():
            # What a table inside the table says: `[mcp.NAME.env]`. Everything in it is text.
            field = tables[section].get(key)
            return _TEXT if field is not None and _is_table(field) else None
        case (section, _, _) if section == KEY_SETTINGS:
            return _PRESSED  # which screens and commands there are, only the screens know
        case _:
            return keys.get(dotted(names))


_TEXT = FieldInfo(annotation=str)
_PRESSED = FieldInfo(annotation=str | list[str])


def _is_table(field: FieldInfo) -> bool:
    return get_origin(field.annotation) is dict


def _unknown(names: Sequence[str], keys: Fields, tables: Tables) -> str:
    key, section = dotted(names), dotted(names[:-1])
    sentence = f"there is no setting {key}"
    if names[0] == KEY_SETTINGS:
        return f'{sentence}; each screen has a table of its own: [keys.SCREEN] with COMMAND = "KEY"'
    if names[0] in BY_NAME:
        return f"{sentence}; {_unknown_of_a_table(names, tables[names[0]])}"
    beside = [name.rpartition(".")[2] for name in keys if section and name.rpartition(".")[0] == section]
    where = f"[{section}] has" if beside else "there are"
    listed = _listed(beside or [*keys, *(f"{any_of(name)}.KEY" for name in BY_NAME)], "and")
    return f"{sentence}; {_close(key, keys)}{where} {listed}"


def _unknown_of_a_table(names: Sequence[str], keys: Fields) -> str:
    section = names[0]
    what, table = _OF_WHAT[section], any_of(section)
    if len(names) > 3 and names[-1] in keys:
        whole = dotted((section, ".".join(names[1:-1])))
        return f"the name of a {what} goes in quotes where it holds dots: [{whole}]"
    if len(names) < 3:
        return f"each {what} has a table of its own: [{table}] with {_listed(list(keys), 'or')}"
    return f"{_close(names[-1], keys)}[{table}] has {_listed(list(keys), 'and')}"


def _close(key: str, keys: Fields) -> str:
    close = get_close_matches(key, keys, n=1)
    return f"did you mean {close[0]}? " if close else ""


def allowed(field: FieldInfo) -> str:
    """What a setting may be, in words."""
    kinds = [field.annotation]
    if get_origin(field.annotation) in (UnionType, Union):
        kinds = [kind for kind in get_args(field.annotation) if kind is not type(None)]
    if field is _PRESSED:
        return "a key or a list of keys"
    kind = kinds[0]
    limits = [*field.metadata]
    if get_origin(kind) is Annotated:
        kind, *inner = get_args(kind)
        for item in inner:
            limits += item.metadata if isinstance(item, FieldInfo) else [item]
    if get_origin(kind) is Literal:
        return _listed([str(value) for value in get_args(kind)], "or")
    if kind is Amount:
        return ALLOWED
    if kind is str:
        return "a name"
    if kind is bool:
        return "true or false"
    if get_origin(kind) is list:
        return "a list of texts"
    if get_origin(kind) is dict:
        return "a table of texts"
    what = ALLOWED_TOKENS if kind is int else "a number"
    return f"{what}{_limits(limits)}"


def _limits(limits: list[object]) -> str:
    least = next((limit.ge for limit in limits if hasattr(limit, "ge")), None)
    above = next((limit.gt for limit in limits if hasattr(limit, "gt")), None)
    most = next((limit.le for limit in limits if hasattr(limit, "le")), None)
    words = [
        f"from {least:,}" if least is not None else f"above {above:,}" if above is not None else "",
        f"to {most:,}" if most is not None else "",
    ]
    return "".join(f" {word}" for word in words if word)


def _listed(names: list[str], joint: str) -> str:
    return f"{', '.join(names[:-1])} {joint} {names[-1]}" if len(names) > 1 else names[0]
