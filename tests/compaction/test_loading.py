"""Loading strategies by short name or import path, with injected constructor arguments."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from foldline.compaction import (
    BUILT_IN,
    CompactionContext,
    check_strategy,
    load_strategy,
)
from foldline.llm import LLM
from foldline.protocol import BaseMessage, FoldlineError
from support.llm import ScriptedLLM

MODULE = """
from pathlib import Path
from foldline.llm import LLM

class Plain:
    async def compact(self, ctx):
        return None

class Asks:
    def __init__(self, llm: LLM, folder: Path, /, *, keep: int = 7) -> None:
        self.llm, self.folder, self.keep = llm, folder, keep
    async def compact(self, ctx):
        return None

class Quoted:
    def __init__(self, llm: "LLM", keep: int = 3) -> None:
        self.llm, self.keep = llm, keep
    async def compact(self, ctx):
        return None

class Later:
    def __init__(self, keep: int = 3, llm: LLM | None = None, at: Path = Path("/"), /, more: int = 5) -> None:
        self.given = keep, llm, at, more
    async def compact(self, ctx):
        return None

class NeedsKeyword:
    def __init__(self, *, keep: int) -> None: ...
    async def compact(self, ctx): ...

class NoSuchType:
    def __init__(self, llm: "Nothing") -> None: ...
    async def compact(self, ctx): ...

class Fails:
    def __init__(self) -> None: raise TypeError("no luck")
    async def compact(self, ctx): ...

class AsksTooMuch:
    def __init__(self, database: dict) -> None: ...
    async def compact(self, ctx): ...

class NoMethod: ...

class NotAsync:
    def compact(self, ctx): ...

a_function = print
"""


@pytest.fixture(autouse=True)
def custom_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Write a third-party module to a folder on `sys.path`."""
    (tmp_path / "their_compacting.py").write_text(MODULE)
    (tmp_path / "their_broken.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in ("their_compacting", "their_broken"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_short_name_loads_its_strategy(name: str) -> None:
    assert type(load_strategy(name)) is BUILT_IN[name]


def test_a_custom_class_is_loaded_by_its_import_path() -> None:
    assert type(load_strategy("their_compacting:Plain")).__name__ == "Plain"
    assert (
        type(load_strategy("foldline.compaction:SimpleCompaction")).__name__
        == "SimpleCompaction"
    )


def test_positional_parameters_are_injected_and_keyword_only_ones_use_defaults() -> (
    None
):
    llm = ScriptedLLM()
    made = load_strategy("their_compacting:Asks", {LLM: llm, Path: Path("/work")})
    assert (made.llm, made.folder, made.keep) == (llm, Path("/work"), 7)  # type: ignore[attr-defined]


def test_string_annotations_and_defaults_are_supported() -> None:
    llm = ScriptedLLM()
    made = load_strategy("their_compacting:Quoted", {LLM: llm})
    assert (made.llm, made.keep) == (llm, 3)  # type: ignore[attr-defined]


def test_a_parameter_with_a_default_is_injected_at_any_position() -> None:
    llm = ScriptedLLM()
    made = load_strategy("their_compacting:Later", {LLM: llm, Path: Path("/work")})
    assert made.given == (3, llm, Path("/work"), 5)  # type: ignore[attr-defined]
    assert load_strategy("their_compacting:Later").given == (3, None, Path("/"), 5)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("sumary", r"no strategy sumary\. Did you mean summary\?.*module:ClassName"),
        ("nowhere:Thing", "no module nowhere"),
        ("their_compacting:Missing", "their_compacting has no class Missing"),
        ("their_compacting:a_function", "has no class a_function"),
        ("their_compacting:NoMethod", r"no method compact\(ctx\)"),
        ("their_compacting:NotAsync", "with async def"),
        (
            "their_compacting:AsksTooMuch",
            "needs a value for database: dict.*LLM, Path.*keyword-only",
        ),
        ("their_broken:Thing", "ZeroDivisionError"),
        (
            "their_compacting:NeedsKeyword",
            "NeedsKeyword needs a value for keep, which is keyword-only",
        ),
        (
            "their_compacting:NoSuchType",
            "NoSuchType .*annotations.*NameError: name 'Nothing' is not defined",
        ),
    ],
)
def test_an_unloadable_strategy_is_one_sentence_even_before_construction(
    name: str, says: str
) -> None:
    for load in (
        lambda: load_strategy(name, {LLM: ScriptedLLM(), Path: Path()}),
        lambda: check_strategy(name),
    ):
        with pytest.raises(FoldlineError, match=says) as refusal:
            load()
        assert "\n" not in str(refusal.value)


def test_a_failing_constructor_is_one_sentence_and_not_run_by_the_check() -> None:
    check_strategy("their_compacting:Fails")
    with pytest.raises(
        FoldlineError,
        match=r"their_compacting:Fails cannot be created: .*TypeError: no luck",
    ):
        load_strategy("their_compacting:Fails")


def test_a_class_with_only_the_protocols_method_is_a_strategy() -> None:
    class Own:
        async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
            return ctx.history[1:]

    assert callable(Own().compact)
