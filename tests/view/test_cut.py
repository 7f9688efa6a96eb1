"""Cut points of a compaction: split turns, pins, earlier summaries, unseen results."""

from hypothesis import given
from hypothesis import strategies as st

from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
    text_parts,
)
from foldline.view.cut import (
    Cut,
    cut_at,
    cut_points,
    find_cut,
    giant_limit,
    giant_results,
)
from foldline.view.tokens import message_tokens
from support.history import IMAGE, History, call, history

LONG = "some output of a command, line after line\n" * 40
"""About 400 tokens."""


def messages(built: History) -> list[BaseMessage]:
    return [entry for entry in built.entries if isinstance(entry, BaseMessage)]


def indices(part: tuple[BaseMessage, ...]) -> list[int]:
    return [message.index for message in part]


def cut_of(
    built: History, keep: int, pins: frozenset[int] = frozenset()
) -> Cut[BaseMessage]:
    cut = find_cut(messages(built), keep, pins=pins)
    assert cut is not None
    return cut


def test_the_cut_is_the_nearest_cut_point_at_or_before_the_part_to_keep() -> None:
    built = (
        history().system("s").turn("one", LONG).turn("two", LONG).turn("three", "short")
    )
    cut = cut_of(built, 300)
    assert (cut.first_kept_index, indices(cut.history)) == (4, [1, 2])
    assert cut_of(built, 5).first_kept_index == 6
    assert cut_of(built, 5).request is not None


def test_a_cut_inside_a_turn_keeps_its_request_and_compacts_its_start_separately() -> (
    None
):
    built = (
        history()
        .system("s")
        .turn("one", LONG)
        .user("two", images=1)
        .step("read", LONG)
        .step("read", LONG)
    )
    cut = cut_of(built, 300)
    assert cut.request is not None
    assert cut.request.parts == (*text_parts("two"), IMAGE)
    assert (indices(cut.history), indices(cut.prefix), indices(cut.tail)) == (
        [1, 2],
        [4, 5],
        [6, 7],
    )


def test_a_pinned_request_does_not_split_the_turn_before_it() -> None:
    built = (
        history()
        .system("s")
        .turn("one", LONG)
        .user("two")
        .step("read", LONG)
        .step("read", "x")
    )
    cut = cut_of(built, 1, pins=frozenset({3}))
    assert cut.request is None
    assert (indices(cut.history), indices(cut.prefix)) == ([1, 2], [4, 5])


def test_a_split_turns_request_kept_by_one_compaction_is_kept_by_the_next() -> None:
    summary = SystemMessage(index=9, origin="summary", parts=text_parts("so far"))
    view = [
        summary,
        *messages(history().user("go").step("read", LONG).step("read", LONG)),
    ]
    cut = find_cut(view, 300)
    assert cut is not None
    assert (cut.previous, cut.request, indices(cut.prefix)) == (
        (summary,),
        view[1],
        [1, 2],
    )


def test_an_unseen_result_is_kept_even_if_messages_follow_it() -> None:
    built = (
        history()
        .system("s")
        .turn("one", LONG)
        .user("two")
        .step("read", LONG)
        .user("and be quick")
    )
    assert cut_of(built, 1).first_kept_index == 4


def test_a_huge_last_tool_result_leaves_no_cut_point() -> None:
    assert (
        find_cut(
            messages(history().system("s").user("read it").step("read", LONG * 100)),
            300,
        )
        is None
    )


def test_a_part_too_small_to_pay_for_a_summary_is_not_compacted() -> None:
    assert (
        find_cut(
            messages(history().system("s").turn("hi", "hello").turn("one", LONG)), 100
        )
        is None
    )


def test_pins_summaries_and_the_preamble_are_never_compacted() -> None:
    built = (
        history()
        .system("s")
        .turn("one", LONG)
        .instructions("rules")
        .turn("two", LONG)
        .turn("three", LONG)
    )
    cut = cut_of(built, 100, pins=frozenset({2}))
    assert indices(cut.compacted) == [1, 4, 5]
    pinned_summary = [
        SystemMessage(index=9, origin="summary", parts=text_parts("x")),
        *messages(built),
    ]
    cut = find_cut(pinned_summary, 100, pins=frozenset({9}))
    assert cut is not None
    assert cut.previous == ()


def test_there_is_no_cut_if_it_would_only_compact_the_kept_request() -> None:
    assert cut_at(messages(history().user("go").assistant("on it")), 1) is None


kinds = st.sampled_from(
    ["user", "assistant", "calls", "result", "notice", "instructions", "summary"]
)


@given(st.lists(kinds, max_size=25), st.sets(st.integers(0, 25)), st.integers(1, 3_000))
def test_every_cut_is_legal_and_loses_nothing(
    listed: list[str], chosen: set[int], keep: int
) -> None:
    built = history()
    for kind in listed:
        match kind:
            case "user":
                built.user(LONG)
            case "assistant":
                built.assistant(LONG)
            case "calls":
                built.assistant(calls=[call("a"), call("b")]).result(LONG).result("b")
            case "notice":
                built.notice("note")
            case "instructions":
                built.instructions("rules")
            case "summary":
                built.add(SystemMessage(origin="summary", parts=text_parts("earlier")))
            case _:
                pass
    view, pins = messages(built), frozenset(chosen)
    cut = find_cut(view, keep, pins=pins)
    if cut is None:
        return
    assert cut.position in cut_points(view, pins)
    first = view[cut.position]
    assert not isinstance(first, ToolResultMessage | DeveloperMessage | SystemMessage)
    assert sum(message_tokens(message) for message in view[cut.position :]) >= keep
    request = () if cut.request is None else (cut.request,)
    parts = [*cut.previous, *cut.history, *request, *cut.prefix, *cut.tail]
    stays = [
        m
        for m in view[: cut.position]
        if m.index in pins or (m.type == "developer" and "rules" in m.text)
    ]
    stays += [m for m in view[: cut.position] if m.index in pins and m.type == "system"]
    pinned_tail = [message for message in view[cut.position :] if message.index in pins]
    everything = {message.index for message in [*parts, *stays, *pinned_tail]}
    assert everything == {message.index for message in view}
    assert len(parts) == len({message.index for message in parts})
    last_user = next((m for m in reversed(view) if isinstance(m, UserMessage)), None)
    assert last_user not in cut.compacted
    last_answer = next(
        (m for m in reversed(view) if isinstance(m, AssistantMessage)), None
    )
    if last_answer is not None and last_answer.calls:
        assert last_answer not in cut.compacted


def test_giants_are_seen_unpinned_results_larger_than_the_kept_part() -> None:
    built = (
        history()
        .user("go")
        .step("read", LONG * 9)
        .step("read", LONG * 9)
        .step("read", LONG * 9)
    )
    limit = giant_limit(100, window=8_192)
    assert limit == 512
    found = giant_results(messages(built), limit, pins=frozenset({2}))
    assert [message.index for message in found] == [4]
