"""Strategies by name: short ones, anybody's own by import path, with what their constructors ask for."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from foldline.compaction import BUILT_IN, CompactionContext, check_strategy, load_strategy
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
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Somebody's own module, where Python finds it."""
    (tmp_path / "their_folding.py").write_text(MODULE)
    (tmp_path / "their_broken.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in ("their_folding", "their_broken"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_short_name_gives_its_strategy(name: str) -> None:
    assert type(load_strategy(name)) is BUILT_IN[name]


def test_a_class_of_ones_own_is_loaded_by_its_import_path() -> None:
    assert type(load_strategy("their_folding:Plain")).__name__ == "Plain"
    assert type(load_strategy("foldline.compaction:SimpleCompaction")).__name__ == "SimpleCompaction"


def test_positional_parameters_are_injected_and_keyword_only_ones_keep_their_defaults() -> None:
    llm = ScriptedLLM()
    made = load_strategy("their_folding:Asks", {LLM: llm, Path: Path("/work")})
    assert (made.llm, made.folder, made.keep) == (llm, Path("/work"), 7)  # type: ignore[attr-defined]


def test_annotations_as_text_and_defaults_behind_them_are_understood() -> None:
    llm = ScriptedLLM()
    made = load_strategy("their_folding:Quoted", {LLM: llm})
    assert (made.llm, made.keep) == (llm, 3)  # type: ignore[attr-defined]


def test_a_parameter_with_a_default_is_injected_too_wherever_it_stands() -> None:
    llm = ScriptedLLM()
    made = load_strategy("their_folding:Later", {LLM: llm, Path: Path("/work")})
    assert made.given == (3, llm, Path("/work"), 5)  # type: ignore[attr-defined]
    assert load_strategy("their_folding:Later").given == (3, None, Path("/"), 5)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("sumary", r"no strategy sumary; did you mean summary\?.*module:ClassName"),
        ("nowhere:Thing", "no module nowhere"),
        ("their_folding:Missing", "their_folding has no class Missing"),
        ("their_folding:a_function", "has no class a_function"),
        ("their_folding:NoMethod", r"no method compact\(ctx\)"),
        ("their_folding:NotAsync", "write async def"),
        ("their_folding:AsksTooMuch", "asks for database: dict.*there is .*LLM, Path.*keyword-only"),
        ("their_broken:Thing", "ZeroDivisionError"),
        ("their_folding:NeedsKeyword", "NeedsKeyword asks for keep, which is keyword-only: give it a def"),
        ("their_folding:NoSuchType", "NoSuchType .*annotations.*NameError: name 'Nothing' is not defined"),
    ],
)
def test_what_cannot_be_loaded_is_said_in_one_sentence_also_before_anything_is_made(
    name: str, says: str
) -> None:
    for load in (
        lambda: load_strategy(name, {LLM: ScriptedLLM(), Path: Path()}),
        lambda: check_strategy(name),
    ):
        with pytest.raises(FoldlineError, match=says) as refusal:
            load()
        assert "\n" not in str(refusal.value)


def test_a_constructor_that_fails_is_one_sentence_and_is_not_run_by_a_check() -> None:
    check_strategy("their_folding:Fails")
    with pytest.raises(FoldlineError, match=r"their_folding:Fails cannot be made: .*TypeError: no luck"):
        load_strategy("their_folding:Fails")


def test_the_protocol_is_what_a_strategy_needs_and_no_more() -> None:
    class Own:
        async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
            return ctx.history[1:]

    assert callable(Own().compact)
