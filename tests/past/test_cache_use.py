"""Expected cache hits of each request and reasons for misses, from built histories."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.past.cache_use import CacheUse, cache_uses
from foldline.protocol import CacheTerms, Compaction, Kept, RequestRecord, Usage
from support.history import History, history

START = datetime(2026, 11, 24, 12, tzinfo=UTC)
TERMS = CacheTerms(life=300, least=1024, step=128)


@dataclass
class TimedHistory:
    """History builder with the time of its next request."""

    history: History
    seconds: float = 0.0

    def ask(
        self, input: int, cached: int = 0, *, after: float = 10.0, **different: Any
    ) -> "TimedHistory":
        """Send a request this long after the previous one, and answer it."""
        self.seconds += after
        record = {
            "digest": "0" * 64,
            "model": "m",
            "after": self.history.last,
            "left": START + timedelta(seconds=self.seconds),
            "cache": TERMS,
            "tools": "t",
            "usage": Usage(input=input, cached=cached, output=10),
        }
        self.history.assistant("done").add(
            RequestRecord.model_validate(record | different)
        )
        return self

    @property
    def uses(self) -> list[CacheUse]:
        return [*cache_uses(self.history.projection())]

    @property
    def newest(self) -> CacheUse:
        return self.uses[-1]


def timed_history() -> TimedHistory:
    return TimedHistory(history().system("Be brief.").user("one"))


def cause(use: CacheUse) -> str | None:
    return None if use.miss is None else use.miss.cause


def test_the_previous_request_is_expected_from_the_cache_in_whole_steps() -> None:
    made = timed_history().ask(10_000)
    made.history.user("two")
    assert (made.ask(12_000, 9_984).newest.expected, cause(made.newest)) == (
        9_984,
        None,
    )


def test_the_first_request_expects_no_cached_tokens() -> None:
    assert (
        timed_history().ask(10_000, 9_000).newest.expected,
        timed_history().ask(10_000).newest.miss,
    ) == (
        0,
        None,
    )


def test_nothing_is_expected_below_the_providers_minimum() -> None:
    made = timed_history().ask(1_000)
    made.history.user("two")
    assert made.ask(5_000).newest.expected == 0


def test_a_request_without_usage_is_skipped() -> None:
    made = timed_history().ask(10_000)
    made.history.user("two")
    made.ask(0, usage=None, error="503").ask(12_000, 9_984)
    assert [use.number for use in made.uses] == [1, 3]
    assert cause(made.newest) is None


def test_expiry_is_named_with_the_elapsed_seconds_and_not_a_second_too_early() -> None:
    made = timed_history().ask(10_000)
    made.history.user("two")
    assert cause(made.ask(12_000, after=300).newest) == "provider"
    made.history.user("three")
    made.ask(14_000, after=301)
    assert made.newest.miss is not None and made.newest.miss.unused == 301
    assert str(made.newest) == "cached 0 of 11.9k expected · not used for 5:01"


def test_the_lifetime_is_that_of_the_cached_request() -> None:
    made = timed_history().ask(10_000, cache=CacheTerms(life=3_600))
    made.history.user("two")
    assert cause(made.ask(12_000, after=400).newest) == "provider"


def test_nothing_expires_if_the_lifetime_is_unknown() -> None:
    made = timed_history().ask(10_000, cache=CacheTerms())
    made.history.user("two")
    assert cause(made.ask(12_000, after=90_000).newest) == "provider"


@pytest.mark.parametrize(("field", "named"), [("model", "model"), ("tools", "tools")])
def test_a_changed_prefix_is_named_before_message_changes_and_expiry(
    field: str, named: str
) -> None:
    made = timed_history().ask(10_000)
    made.history.user("two").edit("hide", 1)
    made.ask(12_000, after=900, **{field: "other"})
    assert cause(made.newest) == named


def test_a_changed_effort_is_named_if_it_is_part_of_the_cached_prefix() -> None:
    made = timed_history().ask(10_000)
    made.history.user("two")
    made.ask(12_000, 2_000, cache=TERMS.model_copy(update={"effort": "high"}))
    assert cause(made.newest) == "effort"


def test_a_rewind_to_before_the_system_prompt_counts_as_a_change_of_it() -> None:
    made = TimedHistory(history().checkpoint(0).system("Be brief.").user("one")).ask(
        10_000
    )
    made.history.revert(0)
    rewind = made.history.last
    made.history.system("Be long.").user("two")
    made.ask(12_000)
    assert made.newest.miss is not None
    assert (cause(made.newest), made.newest.miss.by, made.newest.miss.differs) == (
        "system",
        rewind,
        1,
    )
    assert str(made.newest.miss) == "system prompt changed"


def test_the_change_with_the_shortest_common_prefix_is_named() -> None:
    made = timed_history()
    made.history.step("read", "text " * 50).step("read", "more " * 50)
    first, second = (
        entry.index for entry in made.history.entries if entry.type == "tool_result"
    )
    made.ask(10_000)
    made.history.edit("hide", second).edit("hide", first).user("two")
    made.ask(12_000, 1_024)
    assert made.newest.miss is not None
    assert (made.newest.miss.by, made.newest.miss.differs) == (
        made.history.last - 3,
        first,
    )


def test_an_undone_edit_is_not_a_change() -> None:
    made = timed_history()
    made.history.step("read", "text " * 50)
    made.ask(10_000)
    made.history.edit("hide", 3).undo().user("two")
    assert cause(made.ask(12_000, 1_024).newest) == "provider"


def test_a_clear_and_a_compaction_that_only_hides_are_named() -> None:
    made = timed_history()
    made.history.step("read", "text " * 50)
    made.ask(40_000)
    hidden = Kept(ref=3, content="[hidden]", fate="hidden")
    made.history.add(
        Compaction(first_kept_index=1, replaced=(hidden,), reason="phase")
    ).user("two")
    made.ask(30_000, 5_000)
    made.history.clear().user("three")
    made.ask(9_000, 1_024)
    assert [cause(use) for use in made.uses] == [None, "compaction", "clear"]


def test_expiry_is_named_after_a_change_if_the_cache_had_nothing_at_all() -> None:
    made = timed_history().ask(40_000)
    made.history.clear().user("two")
    assert cause(made.ask(9_000, after=900).newest) == "expired"


def test_old_records_count_from_their_end_with_guessed_terms() -> None:
    made = timed_history().ask(10_000, left=None, cache=None)
    made.history.user("two")
    made.ask(12_000, 4_096, left=None, cache=None)
    assert (made.newest.expected, cause(made.newest)) == (10_000, "provider")


def test_nothing_is_known_without_terms_and_cached_tokens() -> None:
    made = timed_history().ask(10_000, cache=None)
    made.history.user("two")
    assert made.ask(12_000, cache=None).uses == []


ACTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["ask", "ask", "user", "step", "hide", "clear", "undo", "drop"]
        ),
        st.integers(0, 60_000),
        st.floats(0, 1),
        st.floats(0, 4_000),
        st.sampled_from(["m", "m", "m", "n"]),
    ),
    max_size=25,
)


@given(ACTS, st.integers(0, 4_096), st.integers(0, 512), st.integers(0, 600))
def test_expected_tokens_were_sent_and_every_miss_has_a_reason(
    acts: Sequence[tuple[str, int, float, float, str]], least: int, step: int, life: int
) -> None:
    made, terms = timed_history(), CacheTerms(life=life, least=least, step=step)
    for act, size, share, after, model in acts:
        markers = [
            entry.index
            for entry in made.history.entries
            if entry.type in ("clear", "edit")
        ]
        match act:
            case "ask":
                made.ask(size, int(size * share), after=after, model=model, cache=terms)
            case "user":
                made.history.user("more")
            case "step":
                made.history.step("read", "text " * 20)
            case "clear":
                made.history.clear()
            case "undo" if markers:
                made.history.undo(markers[-1])
            case "hide" | "drop":
                made.history.edit(act, made.history.last)  # type: ignore[arg-type]
            case _:
                pass
    for use in made.uses:
        assert 0 <= use.expected <= use.input
        assert 0 <= use.missed <= use.expected
        assert (use.miss is None) == (use.missed == 0)
        assert use.miss is None or str(use.miss)


def test_usage_of_another_agents_answers_stands_for_its_requests() -> None:
    built = history().user("one")
    for sent, cached in ((10_000, 0), (20_000, 9_900), (30_000, 0)):
        built.assistant(
            "done", model="m", usage=Usage(input=sent, cached=cached, output=10)
        ).user("on")
    first, second, third = cache_uses(built.projection())
    assert (first.miss, second.miss, cause(third)) == (None, None, "provider")
    assert (third.input, third.cached, third.expected, third.entry) == (
        30_000,
        0,
        20_000,
        built.last - 1,
    )
