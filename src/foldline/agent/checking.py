"""Whether what somebody set exists and may have that value; if not, a sentence says where and what may be."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from foldline.protocol import FoldlineError

from .amounts import ALLOWED, ALLOWED_TOKENS, Amount
from .layers import MODELS, Given, dotted

Fields = Mapping[str, FieldInfo]
"""Settings by their dotted keys."""

ANY_MODEL = 'models."NAME"'
"""Stands for the table of one model in what people read."""


def fields_of(model: type[BaseModel], before: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every setting of these sections, by its dotted key; what is keyed by free names is left out."""
    for name, field in model.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            yield from fields_of(section, f"{before}{name}.")
        elif get_origin(section) is not dict:
            yield f"{before}{name}", field


def checked(given: Given, keys: Fields, model_keys: Fields) -> object:
    """The value, if its key exists and it is one of those allowed. `model_keys` are those below a model.

    Raises:
        FoldlineError: there is no such key, or its value is not allowed.
    """
    field = _field(given.names, keys, model_keys)
    if field is None:
        raise FoldlineError(f"{given.origin}: {_unknown(given.names, keys, model_keys)}.")
    kind: Any = Annotated[field.annotation, field]
    try:
        value: object = TypeAdapter(kind).validate_python(given.value)
    except ValidationError:
        raise FoldlineError(
            f"{given.origin}: {given.key} cannot be {given.value!r}; allowed: {allowed(field)}."
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
    return value


def _field(names: Sequence[str], keys: Fields, model_keys: Fields) -> FieldInfo | None:
    match names:
        case (section, model, key) if section == MODELS:
            return model_keys.get(key) if model.strip() else None
        case _:
            return keys.get(dotted(names))


def _unknown(names: Sequence[str], keys: Fields, model_keys: Fields) -> str:
    key, section = dotted(names), dotted(names[:-1])
    sentence = f"there is no setting {key}"
    if names[0] == MODELS:
        return f"{sentence}; {_unknown_of_a_model(names, model_keys)}"
    beside = [name.rpartition(".")[2] for name in keys if section and name.rpartition(".")[0] == section]
    where = f"[{section}] has" if beside else "there are"
    listed = _listed(beside or [*keys, f"{ANY_MODEL}.KEY"], "and")
    return f"{sentence}; {_close(key, keys)}{where} {listed}"


def _unknown_of_a_model(names: Sequence[str], model_keys: Fields) -> str:
    if len(names) > 3 and names[-1] in model_keys:
        whole = dotted((MODELS, ".".join(names[1:-1])))
        return f"the name of a model goes in quotes where it holds dots: [{whole}]"
    if len(names) < 3:
        return f"each model has a table of its own: [{ANY_MODEL}] with {_listed(list(model_keys), 'or')}"
    return f"{_close(names[-1], model_keys)}[{ANY_MODEL}] has {_listed(list(model_keys), 'and')}"


def _close(key: str, keys: Fields) -> str:
    close = get_close_matches(key, keys, n=1)
    return f"did you mean {close[0]}? " if close else ""


def allowed(field: FieldInfo) -> str:
    """What a setting may be, in words."""
    kinds = [field.annotation]
    if get_origin(field.annotation) in (UnionType, Union):
        kinds = [kind for kind in get_args(field.annotation) if kind is not type(None)]
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
