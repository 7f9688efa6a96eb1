"""Finds strategies by name, and creates them.

Built-in strategies have short names. The user's own are named `module:ClassName`.
"""

import importlib
import inspect
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Union, get_args, get_origin

from foldline.compaction.strategies.adaptive import AdaptiveCompaction
from foldline.compaction.strategies.digest import DigestCompaction
from foldline.compaction.strategies.hide import ToolResultHidingCompaction
from foldline.compaction.strategies.hide_then_summary import HidingThenSummaryCompaction
from foldline.compaction.strategies.hierarchical import HierarchicalCompaction
from foldline.compaction.strategies.importance import ImportanceCompaction
from foldline.compaction.strategies.ladder import LadderCompaction
from foldline.compaction.strategies.semantic import SemanticCompaction
from foldline.compaction.strategies.simple import SimpleCompaction
from foldline.compaction.strategies.summary import SummaryCompaction
from foldline.history import Session
from foldline.llm import LLM, Embedder
from foldline.llm.base import HasEmbedder
from foldline.protocol import FoldlineError, Reason

from .strategy import CompactionStrategy

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
"""The built-in strategies by short name."""

UNKNOWN_STRATEGY = (
    "There is no strategy {}. {}Available: {}, and your own as module:ClassName."
)
CANNOT_LOAD = "The strategy {} cannot be loaded: {}."
CANNOT_CREATE = "The strategy {} cannot be created: {}."
NO_METHOD = "The strategy {} is not a compaction strategy, because it has no method compact(ctx)."
NOT_ASYNC = (
    "The method compact of the strategy {} is not async. Define it with async def."
)
NEEDS_DEFAULT = (
    "The strategy {} needs a value for {}, which is keyword-only. Give it a default."
)
NOT_AVAILABLE = (
    "The strategy {} needs a value for {}: {}, which is not available. Available: {}. "
    "Make the parameter keyword-only, with a default."
)

DEFAULT = "adaptive"
"""Name of the strategy used if none is configured (docs/decisions/0014-default-strategy.md)."""

Dependencies = Mapping[type, object]
"""Values for the parameters of strategies' constructors, by annotated type."""


def dependencies(
    writer: LLM, folder: Path, *, session: Session | None = None
) -> Dependencies:
    """Return the values that can be injected into a strategy's constructor.

    Args:
        writer: the model that writes the summaries.
    """
    injectable: dict[type, object] = {LLM: writer, Path: folder}
    if session is not None:
        injectable[Session] = session
    embedder = writer.embedder() if isinstance(writer, HasEmbedder) else None
    if embedder is not None:
        injectable[Embedder] = embedder
    return injectable


def plans_by_cut(strategy: CompactionStrategy) -> bool:
    """Return whether this strategy needs a cut in order to compact anything."""
    return isinstance(
        strategy, SummaryCompaction | HierarchicalCompaction | DigestCompaction
    )


def asks_model(strategy: CompactionStrategy) -> bool:
    """Return whether automatic compactions with this strategy call a model."""
    return not isinstance(
        strategy, AdaptiveCompaction | ToolResultHidingCompaction | DigestCompaction
    )


def strategy_name(strategy: CompactionStrategy | str) -> str:
    """Return a strategy's short name, or `module:ClassName`."""
    own_type = type(strategy)
    for name, built_in in BUILT_IN.items():
        if built_in is own_type or built_in.__name__ == strategy:
            return name
    if isinstance(strategy, str):
        return strategy
    return f"{own_type.__module__}:{own_type.__qualname__}"


def strategy_for(strategy: CompactionStrategy, reason: Reason) -> CompactionStrategy:
    """Return the strategy for a compaction with this reason.

    For manual compactions, the default strategy delegates to a different one.
    """
    if reason == "manual" and isinstance(strategy, AdaptiveCompaction):
        return strategy.by_hand
    return strategy


def load_strategy(
    name: str, dependencies: Dependencies | None = None
) -> CompactionStrategy:
    """Create the strategy with this name.

    Positional constructor parameters are injected according to their annotations. If there is no value of
    that type, a parameter keeps its default value. Keyword-only parameters always do. The rule is the same as
    in kimi-cli.

    Raises:
        FoldlineError: the class cannot be found, a parameter cannot be injected, or the constructor fails.
    """
    strategy_type = strategy_class(name)
    arguments = _arguments(name, strategy_type, dependencies or {})
    try:
        return strategy_type(*arguments)
    except FoldlineError:
        raise
    except Exception as error:  # third-party code
        raise FoldlineError(
            CANNOT_CREATE.format(
                name, f"its constructor failed ({type(error).__name__}: {error})"
            )
        ) from error


def check_strategy(name: str) -> None:
    """Check whether a strategy can be loaded, without creating it.

    Raises:
        FoldlineError: the class cannot be found, or it needs a value that is never injected.
    """
    _arguments(
        name, strategy_class(name), dict.fromkeys((LLM, Path, Session, Embedder))
    )


def strategy_class(name: str) -> type[CompactionStrategy]:
    """Return the strategy class with this name.

    Raises:
        FoldlineError: the class does not exist, or has no async method `compact`.
    """
    strategy_type: type[CompactionStrategy] = BUILT_IN.get(name) or _imported(name)
    if not callable(getattr(strategy_type, "compact", None)):
        raise FoldlineError(NO_METHOD.format(name))
    if not inspect.iscoroutinefunction(strategy_type.compact):
        raise FoldlineError(NOT_ASYNC.format(name))
    return strategy_type


def _imported(name: str) -> type[CompactionStrategy]:
    module_name, colon, class_name = name.partition(":")
    if not colon:
        close = get_close_matches(name, BUILT_IN, n=1)
        hint = f"Did you mean {close[0]}? " if close else ""
        raise FoldlineError(UNKNOWN_STRATEGY.format(name, hint, ", ".join(BUILT_IN)))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise FoldlineError(
            CANNOT_LOAD.format(name, f"there is no module {error.name}")
            + " Install it in Foldline's Python environment."
        ) from error
    except Exception as error:
        raise FoldlineError(
            CANNOT_LOAD.format(
                name, f"its module failed ({type(error).__name__}: {error})"
            )
        ) from error
    strategy_type = getattr(module, class_name, None)
    if not isinstance(strategy_type, type):
        raise FoldlineError(
            CANNOT_LOAD.format(name, f"{module_name} has no class {class_name}")
        )
    return strategy_type


def _arguments(
    name: str, strategy_type: type, dependencies: Dependencies
) -> list[object]:
    """Return the positional arguments for a strategy's constructor."""
    try:
        parameters = inspect.signature(strategy_type, eval_str=True).parameters.values()
    except Exception as error:  # evaluating an annotation may run any code
        raise FoldlineError(
            CANNOT_CREATE.format(
                name,
                "the annotations of its constructor cannot be read "
                f"({type(error).__name__}: {error})",
            )
        ) from error
    arguments = []
    for parameter in parameters:
        if parameter.kind in (
            parameter.POSITIONAL_ONLY,
            parameter.POSITIONAL_OR_KEYWORD,
        ):
            arguments.append(_injected(name, parameter, dependencies))
        elif (
            parameter.kind is parameter.KEYWORD_ONLY
            and parameter.default is parameter.empty
        ):
            raise FoldlineError(NEEDS_DEFAULT.format(name, parameter.name))
    return arguments


def _injected(
    name: str, parameter: inspect.Parameter, dependencies: Dependencies
) -> object:
    """Return a dependency of the parameter's type, or the parameter's default."""
    accepted = _accepted_types(parameter.annotation)
    for dependency_type, dependency in dependencies.items():
        if dependency_type in accepted:
            return dependency
    if parameter.default is not parameter.empty:
        return parameter.default
    type_name = getattr(parameter.annotation, "__name__", parameter.annotation)
    available = ", ".join(
        sorted(dependency_type.__name__ for dependency_type in dependencies)
    )
    raise FoldlineError(
        NOT_AVAILABLE.format(name, parameter.name, type_name, available or "nothing")
    )


def _accepted_types(annotation: object) -> tuple[object, ...]:
    """Return the types that an annotation accepts.

    For `LLM | None`, these are `LLM` and `None`.
    """
    if get_origin(annotation) in (Union, UnionType):
        return get_args(annotation)
    return (annotation,)
