"""Ten turns of reading with every preset: how much of the input a cache had, by the log of the server."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from foldline.llm import marks
from foldline.llm.providers import PROVIDERS
from support.limits import few
from support.reading_turns import read_files

pytestmark = pytest.mark.quick_cases(1)

LEAST = 0.9
"""Of the input between compactions."""
DIFFERENT = (
    "openai",
    "openai-responses",
    "anthropic",
    "gemini",
    "mistral",
    "llama-cpp",
)
"""Presets by which a request is written in another way."""
ROUTED = "openrouter", "anthropic/claude-sonnet-5.5"


@pytest.mark.parametrize(
    "preset", few([*PROVIDERS], *map([*PROVIDERS].index, DIFFERENT))
)
async def test_nine_tenths_of_the_input_come_from_the_cache(
    tmp_path: Path, preset: str
) -> None:
    run = await read_files(tmp_path, preset)
    assert run.share >= LEAST, f"{run.share:.1%}"


@pytest.mark.slow
async def test_claude_at_openrouter_is_marked_and_cached(tmp_path: Path) -> None:
    run = await read_files(tmp_path, *ROUTED)
    assert run.share >= LEAST, f"{run.share:.1%}"
    assert {seen.body["session_id"] for seen in run.requests} == {
        run.requests[0].body["session_id"]
    }


@pytest.mark.parametrize(("preset", "model"), [("anthropic", "scripted-1"), ROUTED])
async def test_four_marks_and_no_more_also_across_compactions(
    tmp_path: Path, preset: str, model: str
) -> None:
    run = await read_files(tmp_path, preset, model, window=20_000)
    assert run.compactions > 0
    assert {seen.marks for seen in run.requests} <= {2, 3, 4}
    assert run.share >= LEAST, f"{run.share:.1%}"


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "model"), [("anthropic", "scripted-1"), ROUTED])
async def test_without_the_marks_at_the_ends_the_cache_has_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, preset: str, model: str
) -> None:
    """The instrument can fail: it is the marks that bring the share above."""

    def none(messages: Sequence[marks.Rendered]) -> list[marks.MarkPosition]:
        return []

    monkeypatch.setattr("foldline.llm.rendering.request_ends", none)
    assert (await read_files(tmp_path, preset, model)).share < LEAST / 2


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["openai", "openai-responses"])
async def test_the_requests_of_a_session_carry_its_name(
    tmp_path: Path, preset: str
) -> None:
    run = await read_files(tmp_path, preset, window=20_000)
    assert run.compactions > 0
    assert len({seen.body["prompt_cache_key"] for seen in run.requests}) == 1
