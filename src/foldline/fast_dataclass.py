"""A `dataclass` decorator that creates classes faster than that of the standard library.

The standard decorator compiles up to eight methods for each class, which takes half a millisecond. With
hundreds of classes, this was a seventh of a start. This decorator compiles only `__init__`, and all classes
share the other methods.

Frozen instances are not protected at run time, but type checkers report assignments to their fields.
"""

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        cls: type | None = None,
        *,
        frozen: bool = False,
        slots: bool = False,
        eq: bool = True,
        repr: bool = True,
    ) -> type | Callable[[type], type]:
        """Make a class a dataclass. Can be used with or without arguments."""

        def decorate(cls: type) -> type:
            own = vars(cls)
            decorated = dataclasses.dataclass(eq=False, repr=False, slots=slots)(cls)
            if eq and "__eq__" not in own:
                _add_comparison(decorated, is_hashable=frozen)
            if repr and "__repr__" not in own:
                decorated.__repr__ = _repr
            return decorated

        return decorate if cls is None else decorate(cls)


def _add_comparison(cls: Any, *, is_hashable: bool) -> None:
    names = [field.name for field in dataclasses.fields(cls) if field.compare]
    cls._compared = attrgetter(*names) if names else _nothing
    cls.__eq__ = _equal
    if not is_hashable:
        cls.__hash__ = None
    elif "__hash__" not in vars(cls):
        cls.__hash__ = _hash


def _nothing(_: object) -> tuple[()]:
    return ()


def _equal(self: Any, other: Any) -> Any:
    if self.__class__ is not other.__class__:
        return NotImplemented
    compared = self.__class__._compared
    return compared(self) == compared(other)


def _hash(self: Any) -> int:
    value: object = self.__class__._compared(self)
    return hash(value)


def _repr(self: Any) -> str:
    shown = (field.name for field in dataclasses.fields(self) if field.repr)
    values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
    return f"{self.__class__.__qualname__}({values})"
