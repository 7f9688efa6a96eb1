"""Strategies by name: a short one for those that come along, `module:ClassName` for anybody's own."""

import importlib
import inspect
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Union, get_args, get_origin

from foldline.history import Session
from foldline.llm import LLM, Embedder
from foldline.protocol import FoldlineError, Reason

from .hierarchical import HierarchicalCompaction
from .ladder import LadderCompaction
from .selection import ImportanceCompaction, SemanticCompaction
from .simple import (
    AdaptiveCompaction,
    DigestCompaction,
    HidingThenSummaryCompaction,
    SimpleCompaction,
    ToolResultHidingCompaction,
)
from .strategy import CompactionStrategy
from .summary import SummaryCompaction

BUILT_IN: Mapping[str, type[CompactionStrategy]] = {
    "adaptive": AdaptiveCompaction,
    "summary": SummaryCompaction,
    "simple": SimpleCompaction,
    "hide": ToolResultHidingCompaction,
    "hide-then-summary": HidingThenSummaryCompaction,
    "ladder": LadderCompaction,
    "importance": ImportanceCompaction,
    "semantic": SemanticCompaction,
    "hierarchical": HierarchicalCompaction,
    "digest": DigestCompaction,
}
"""The strategies that come along, by their short names."""

DEFAULT = "adaptive"
"""The one of these that compacts where nobody chose (docs/decisions/0014-default-strategy.md)."""

Dependencies = Mapping[type, object]
"""What a constructor may ask for, by the type it annotates."""


def dependencies(
    writer: LLM, folder: Path, *, session: Session | None = None, embedder: Embedder | None = None
) -> Dependencies:
    """The model that writes summaries, the working folder, and what else there is."""
    given: dict[type, object | None] = {LLM: writer, Path: folder, Session: session, Embedder: embedder}
    return {kind: what for kind, what in given.items() if what is not None}


def plans_by_cut(strategy: CompactionStrategy) -> bool:
    """Whether the plan says all: where it finds nothing to cut, this strategy finds nothing either."""
    return isinstance(strategy, SummaryCompaction | HierarchicalCompaction | DigestCompaction)


def asks_model(strategy: CompactionStrategy) -> bool:
    """Whether a compaction by this strategy, unless it is by hand, may ask a model: all but a few do."""
    return not isinstance(strategy, AdaptiveCompaction | ToolResultHidingCompaction | DigestCompaction)


def strategy_name(strategy: CompactionStrategy | str) -> str:
    """The short name of a strategy, or of the class that an entry records; else `module:ClassName`."""
    own = type(strategy)
    for name, kind in BUILT_IN.items():
        if kind is own or kind.__name__ == strategy:
            return name
    return strategy if isinstance(strategy, str) else f"{own.__module__}:{own.__qualname__}"


def strategy_for(strategy: CompactionStrategy, reason: Reason) -> CompactionStrategy:
    """The strategy for a compaction of this reason: the default one has another for those by hand."""
    if reason == "manual" and isinstance(strategy, AdaptiveCompaction):
        return strategy.by_hand
    return strategy


def load_strategy(name: str, dependencies: Dependencies | None = None) -> CompactionStrategy:
    """The strategy of this name, made.

    Positional constructor parameters are injected by their annotation, those with a default where there is
    something to inject; keyword-only ones keep their defaults. (The rule is kimi-cli's.)

    Raises:
        FoldlineError: there is no such module, class or method, it asks for something that is not there, or
            its constructor fails.
    """
    kind = strategy_class(name)
    arguments = _arguments(name, kind, dependencies or {})
    try:
        return kind(*arguments)
    except FoldlineError:
        raise
    except Exception as error:  # it may be anybody's
        raise FoldlineError(
            f"The strategy {name} cannot be made: its constructor failed ({type(error).__name__}: {error})."
        ) from error


def check_strategy(name: str) -> None:
    """See whether the strategy of this name can be loaded, without making one.

    Raises:
        FoldlineError: it cannot, whatever there is to be injected.
    """
    _arguments(name, strategy_class(name), dict.fromkeys((LLM, Path, Session, Embedder)))


def strategy_class(name: str) -> type[CompactionStrategy]:
    """The class of this name.

    Raises:
        FoldlineError: there is none, or it has no method to compact with.
    """
    kind: type[CompactionStrategy] = BUILT_IN.get(name) or _imported(name)
    if not callable(getattr(kind, "compact", None)):
        raise FoldlineError(f"The strategy {name} has no method compact(ctx): it is no compaction strategy.")
    if not inspect.iscoroutinefunction(kind.compact):
        raise FoldlineError(f"The strategy {name} has a method compact that is not async: write async def.")
    return kind


def _imported(name: str) -> type[CompactionStrategy]:
    module_name, colon, class_name = name.partition(":")
    if not colon:
        close = get_close_matches(name, BUILT_IN, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise FoldlineError(
            f"There is no strategy {name}; {hint}there are {', '.join(BUILT_IN)}, and your own as "
            "module:ClassName."
        )
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise FoldlineError(
            f"The strategy {name} cannot be loaded: there is no module {error.name}. Install it where "
            "Foldline is installed."
        ) from error
    except Exception as error:
        raise FoldlineError(
            f"The strategy {name} cannot be loaded: its module fails ({type(error).__name__}: {error})."
        ) from error
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        raise FoldlineError(f"The strategy {name} cannot be loaded: {module_name} has no class {class_name}.")
    return found


def _arguments(name: str, kind: type, dependencies: Dependencies) -> list[object]:
    try:
        parameters = inspect.signature(kind, eval_str=True).parameters.values()
    except Exception as error:  # an annotation is evaluated, and may be any code
        raise FoldlineError(
            f"The strategy {name} cannot be made: the annotations of its constructor cannot be read "
            f"({type(error).__name__}: {error})."
        ) from error
    given: list[object] = []
    for parameter in parameters:
        required = parameter.default is parameter.empty
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            wanted = _kinds(parameter.annotation)
            found = [what for each, what in dependencies.items() if each in wanted]
            if required and not found:
                what = getattr(parameter.annotation, "__name__", parameter.annotation)
                known = ", ".join(sorted(each.__name__ for each in dependencies)) or "nothing"
                raise FoldlineError(
                    f"The strategy {name} asks for {parameter.name}: {what}, which cannot be given to it; "
                    f"there is {known}. Make it keyword-only with a default."
                )
            given.append(found[0] if found else parameter.default)
        elif required and parameter.kind is parameter.KEYWORD_ONLY:
            raise FoldlineError(
                f"The strategy {name} asks for {parameter.name}, which is keyword-only: give it a default."
            )
    return given


def _kinds(annotation: object) -> tuple[object, ...]:
    """What an annotation takes: of `LLM | None`, both."""
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
