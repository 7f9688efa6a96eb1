"""The rows around the transcript: exact width whatever is in them, nothing parsed, nothing executed."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from foldline.frontend.reduce import NOTHING_TO_COMPACT, reduce
from foldline.frontend.runner import ENTER_COMPACTS, NOT_SENT
from foldline.frontend.state import (
    RUNGS,
    Answerable,
    CacheEnds,
    ChatState,
    Compacting,
    CompactionRow,
    ContextUse,
    DraftedAhead,
    FileRow,
    News,
    PinRow,
    Question,
    RetryWait,
    RunningTool,
    SidebarData,
    Stepping,
    Waiting,
    Working,
    rung_words,
)
from foldline.protocol import ApprovalMode
from foldline.protocol.events import ProposalReady, SandboxKnown
from foldline.text.harmless import clean_line
from foldline.tui.chat.question import TO_ANSWER
from foldline.tui.chat.question_text import QuestionText
from foldline.tui.chat.sidebar import sidebar
from foldline.tui.look.cells import RowPiece, piece, row, width_of
from foldline.tui.look.lines import HEAVY, edge
from foldline.tui.look.meter import header_row, meter_row
from foldline.tui.look.status import (
    CACHE_EXPIRED,
    DRAFTED_AHEAD,
    DRAFTING_AHEAD,
    RETRYING,
    WAITING_FOR_DRAFT,
    StatusContext,
    hints_row,
    next_change,
    status_row,
)
from foldline.tui.prompting.completion import Completion, completion_lines
from foldline.tui.prompting.queue import (
    HELD_FOR_ANSWER,
    MARK_QUEUED,
    queue_rows,
    waiting_words,
)
from support.chat_app import compacting_state, running_state, sidebar_data

NASTY = [
    "[/nope]",
    "list[str]",
    "\x1b[2J\x1b]0;x\x07",
    "幂等订单：移动端重试",
    "a\tb\r\nc",
    "👩‍💻👍🏽",
    "\u202eevil",
    "",
]
foreign = st.sampled_from(NASTY) | st.text(max_size=40)
widths = st.integers(40, 220)

retries = st.none() | st.builds(
    RetryWait, st.floats(4, 80), foreign, st.integers(1, 3), st.integers(1, 3)
)
states = st.builds(
    ChatState,
    workdir=foreign,
    title=foreign,
    model=foreign,
    git=foreign,
    activity=st.builds(RunningTool, st.just(0.0), foreign, foreign, foreign)
    | st.builds(Stepping, st.just(0.0), foreign, again=retries),
    ahead=st.none()
    | st.builds(DraftedAhead, st.just(0.0), st.booleans(), st.integers(0, 99_999)),
    compacting=st.none()
    | st.builds(
        Compacting,
        st.just(0.0),
        st.just("manual"),
        st.just(10),
        entries=st.integers(0, 9),
        rung=st.sampled_from(["strategy", *RUNGS]) | foreign,
        detail=foreign,
        again=retries,
    ),
    proposal=st.none()
    | st.builds(
        ProposalReady,
        proposal=foreign,
        reason=st.just("manual"),
        state=st.sampled_from(["current", "edited", "stale"]),
        waits=st.booleans(),
        facts=st.integers(0, 999),
    ),
    questions=st.lists(
        st.builds(
            Question,
            foreign,
            foreign,
            foreign,
            foreign,
            st.just(0.0),
            st.lists(st.builds(Answerable, foreign, foreign), max_size=4).map(tuple),
            st.sampled_from(["call", "choice"]),
        ),
        max_size=2,
    ).map(tuple),
    news=st.none()
    | st.builds(
        News, foreign, st.sampled_from(["info", "warning", "error"]), st.just(0.0)
    ),
    waiting=st.builds(
        Waiting,
        st.none() | foreign,
        st.lists(foreign, max_size=8).map(tuple),
        st.booleans(),
        foreign,
    ),
    room=st.builds(ContextUse, st.integers(0, 10**6), st.integers(0, 10**6)),
    cached=st.none() | st.integers(0, 10**6),
)

PLAIN_ROW = StatusContext()


def text(spans) -> str:
    return "".join(part for part, _ in spans)


def harmless(line: str) -> bool:
    return all(ord(sign) >= 0x20 and not 0x7F <= ord(sign) < 0xA0 for sign in line)


@given(states, widths, st.booleans(), foreign)
def test_every_row_has_exactly_its_width(
    state: ChatState, width: int, focused: bool, remark: str
) -> None:
    beside = StatusContext(
        3, "Esc cancels", clean_line(remark), writes=focused, question_focused=focused
    )
    lines = [
        header_row(state, width),
        meter_row(state, width),
        hints_row(state, width),
        status_row(state, beside, 5.0, width),
        *queue_rows(state.waiting, None, HEAVY, width),
        edge(
            HEAVY, True, (("prompt", ""),), ((waiting_words(state.waiting), ""),), width
        ),
    ]
    for line in lines:
        assert width_of(line) == width, text(line)
        assert harmless(text(line))


UNSENT = NOT_SENT.format(
    reason=f"the request would take 37.0k of 32.8k. {ENTER_COMPACTS}"
)


@pytest.mark.parametrize(
    ("state", "runs"),
    [
        (
            ChatState(activity=Stepping(90.0, model="kimi-k2", phase="writing")),
            "Writing",
        ),
        (ChatState(activity=RunningTool(90.0, "1", "bash", "pytest -q")), "Running"),
        (ChatState(compacting=Compacting(90.0, "threshold", 9_000)), "Compacting"),
        (
            ChatState(activity=Stepping(90.0, again=RetryWait(120.0, "busy", 1, 8))),
            f"{RETRYING}20 s",
        ),
        (ChatState(activity=Working(90.0), cancelling=True), "Cancelling"),
        (
            ChatState(questions=(Question("1", "bash", "ls", None, 90.0),)),
            "? Allow this bash call?",
        ),
    ],
)
@pytest.mark.parametrize("width", [80, 120, 200])
def test_what_is_said_stands_beside_what_runs_and_never_in_its_place(
    state: ChatState, runs: str, width: int
) -> None:
    answer = "There is no command /foo; type /"
    for shown, beside, words in (
        (state, StatusContext(escape="Esc cancels", remark=answer), answer),
        (
            replace(state, news=News("the disk is full", "warning", 100.0)),
            PLAIN_ROW,
            "the disk is full",
        ),
        (
            replace(state, news=News("the disk is full", "error", 100.0)),
            PLAIN_ROW,
            "the disk is full",
        ),
        (
            replace(state, waiting=Waiting(unsent=UNSENT)),
            StatusContext(writes=True),
            "Not sent: the request",
        ),
    ):
        row = text(status_row(shown, beside, 100.0, width))
        assert runs in row and words in row


def test_why_a_prompt_came_back_stays_as_long_as_it_is_there() -> None:
    state = ChatState(waiting=Waiting(unsent=UNSENT), news=News("saved", "info", 100.0))
    for now in (100.0, 10_000.0):
        assert UNSENT in text(status_row(state, StatusContext(writes=True), now, 120))
    assert "Not sent" not in text(status_row(state, PLAIN_ROW, 100.0, 120)), (
        "the reader put it aside"
    )
    queued = replace(state, waiting=Waiting(queued=("it",), paused=True, unsent=UNSENT))
    assert UNSENT in text(status_row(queued, PLAIN_ROW, 100.0, 120))


@given(foreign, foreign, st.integers(20, 120))
def test_a_question_is_drawn_within_its_width(
    title: str, diff: str, width: int
) -> None:
    hunk = f"--- a\n+++ b\n@@ -1,2 +1,2 @@\n-{diff}\n+{diff}\n same\n"
    for line in QuestionText(Question("c", "edit", title, hunk, 0.0), width).lines(
        0, 10_000
    ):
        assert width_of(line) <= width
        assert harmless(text(line))


@given(
    st.lists(
        st.builds(
            FileRow,
            foreign,
            st.sampled_from(["whole", "part", "name", "none"]),
            st.integers(0, 9999),
            st.integers(0, 9999),
        ),
        max_size=30,
    ).map(tuple),
    st.lists(
        st.builds(PinRow, st.integers(0, 99999), foreign, st.integers(0, 99999)),
        max_size=4,
    ).map(tuple),
    st.lists(
        st.builds(
            CompactionRow,
            st.integers(0, 99999),
            st.sampled_from(["", "from 185.0k", "101.3k → 26.1k", "~101.3k → ~26.1k"]),
            st.just("13:20"),
            st.booleans(),
        ),
        max_size=5,
    ).map(tuple),
    st.integers(1, 60),
)
def test_the_side_list_fills_exactly_its_room(
    files, pins, compactions, height: int
) -> None:
    lines = sidebar(SidebarData(files, files[:3], pins, compactions), 33, height)
    assert len(lines) == height
    for line in lines:
        assert width_of(line) == 33, text(line)
        assert harmless(text(line))


def test_the_rows_of_picture_a() -> None:
    state = compacting_state()
    assert text(header_row(state, 120)) == (
        " shop-api ▸ Idempotent orders                                            "
        "kimi-k2   edits: ask   compact: auto   F1 help "
    )
    assert text(meter_row(state, 120)) == (
        " ▐▓▓▒███████████████████◆█┆███┃···▌ 116.2k of 131k  89% → ~27k           "
        "        cached 113k   git orders-idempotent ±3 "
    )
    status = text(
        status_row(state, StatusContext(escape="Esc cancels, prompts stay"), 100.2, 120)
    )
    assert status[3:] == (
        "Compacting · threshold · 0:14   draft 2.1k tokens · 123 entries → 1 summary"
        "                Esc cancels, prompts stay "
    )


def test_where_a_proposal_waits_the_meter_says_what_that_would_leave() -> None:
    state = replace(
        compacting_state(),
        proposal=ProposalReady(
            proposal="p", reason="threshold", waits=True, tokens_after=26_420
        ),
    )
    assert "89% → 26.4k " in text(meter_row(state, 120))


def test_the_rows_of_picture_d() -> None:
    state = running_state()
    assert text(header_row(state, 80)) == (
        " shop-api ▸ Idempotent orders                                 kimi-k2   F1 help "
    )
    status = text(
        status_row(state, StatusContext(new_below=9, escape="Esc cancels"), 100.4, 80)
    )
    assert (
        status[3:]
        == "Running · bash pytest -k cancel · 0:04      ▼ 9 new below, End   Esc cancels "
    )


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("mode", ["sandboxed", "read-only"])
def test_whether_the_sandbox_is_enforced_stands_beside_the_mode(
    width: int, mode: ApprovalMode
) -> None:
    state = ChatState(
        workdir="shop",
        title="A long title " * 9,
        model="a-model-of-some-maker",
        edits=mode,
    )
    assert mode in text(header_row(state, width))
    assert "enforced" not in text(header_row(state, width)), "nobody has tried it yet"
    held = reduce(state, SandboxKnown(holds=True), 0.0)
    assert f"{mode}, enforced" in text(header_row(held, width))
    state = reduce(state, SandboxKnown(holds=False), 0.0)
    assert f"{mode}, not enforced" in text(header_row(state, width))
    assert "enforced" not in text(header_row(replace(state, edits="ask"), width))


@pytest.mark.parametrize("rung", sorted(RUNGS))
@pytest.mark.parametrize("width", [80, 120])
def test_every_rung_is_named_while_it_works(rung: str, width: int) -> None:
    compacting = compacting_state().compacting
    assert compacting is not None
    state = replace(
        compacting_state(), compacting=replace(compacting, rung=rung, stage="verify")
    )
    row = text(
        status_row(
            state, StatusContext(escape="Esc cancels, prompts stay"), 100.2, width
        )
    )
    assert f" · 0:14 · {rung_words(rung)}" in row
    assert row.rstrip().endswith("Esc cancels, prompts stay")


def test_a_rung_without_a_model_promises_no_draft_and_says_why_it_works() -> None:
    compacting = compacting_state().compacting
    assert compacting is not None
    layer = replace(
        compacting,
        rung="digest",
        drafted=0,
        detail="The key was refused. Going on with: a digest.",
    )
    row = text(
        status_row(replace(compacting_state(), compacting=layer), PLAIN_ROW, 100.2, 160)
    )
    assert (
        "digest without a model · 123 entries → 1 summary   The key was refused." in row
    )
    assert WAITING_FOR_DRAFT not in row


def test_the_rungs_named_are_those_of_the_ladder() -> None:
    from foldline.compaction import WORDS

    assert {"strategy", *RUNGS} == set(WORDS)


def test_the_next_compaction_stands_beside_what_runs_as_long_as_there_is_room() -> None:
    drafting = replace(running_state(), ahead=DraftedAhead(90.0, drafted=2_100))
    beside = StatusContext(escape="Esc cancels")
    assert "0:04   compaction: draft 2.1k " in text(
        status_row(drafting, beside, 100.4, 80)
    )
    assert "compaction:" not in text(status_row(drafting, beside, 100.4, 60))
    ready = replace(drafting, ahead=DraftedAhead(90.0, True, 2_400, 97_100, 24_000))
    assert "0:04   compaction: drafted " in text(status_row(ready, beside, 100.4, 80))
    assert "compaction:" not in text(
        status_row(replace(compacting_state(), ahead=ready.ahead), beside, 100.4, 160)
    )


def test_the_next_compaction_is_told_where_nothing_runs_and_only_its_draft_moves_the_row() -> (
    None
):
    drafting = ChatState(ahead=DraftedAhead(90.0, drafted=2_100))
    row = text(
        status_row(drafting, StatusContext(escape="Esc cancels the draft"), 104.0, 80)
    )
    assert row[3:].startswith(f"{DRAFTING_AHEAD} · 2.1k tokens · 0:14 ")
    assert next_change(drafting, 104.0) is not None
    ready = ChatState(ahead=DraftedAhead(90.0, True, 2_400, 97_100, 24_000))
    row = text(status_row(ready, PLAIN_ROW, 104.0, 80))
    assert row.startswith(f" {DRAFTED_AHEAD} · 97.1k → 24.0k · F3 review ")
    assert next_change(ready, 104.0) is None
    grown = replace(ready, room=ContextUse(size=99_600))
    row = text(status_row(grown, PLAIN_ROW, 104.0, 80))
    assert row.startswith(
        f" {DRAFTED_AHEAD} · 99.6k → 26.5k · F3 review "
    )  # as meter and preview


def test_a_proposal_that_something_waits_for_goes_before_what_runs() -> None:
    proposal = ProposalReady(
        proposal="p1",
        reason="threshold",
        waits=True,
        tokens_before=116_200,
        tokens_after=27_400,
        facts=214,
        lost=6,
    )
    row = text(
        status_row(
            replace(compacting_state(), proposal=proposal), PLAIN_ROW, 100.2, 120
        )
    )
    assert row.startswith(
        " ◆ proposal 116.2k → 27.4k · waits for you · 6 of 214 facts lost · F3 review "
    )
    idle = proposal.model_copy(update={"waits": False, "state": "edited", "facts": 0})
    assert "Compacting" in text(
        status_row(replace(compacting_state(), proposal=idle), PLAIN_ROW, 100.2, 120)
    )
    row = text(status_row(ChatState(proposal=idle), PLAIN_ROW, 100.2, 120))
    assert row.startswith(
        " ◆ proposal 116.2k → 27.4k · edited · waits for you · F3 review "
    )


def test_a_choice_says_how_to_get_to_it_until_one_is_there() -> None:
    options = (Answerable("c", "compact now"), Answerable("s", "send as it is"))
    choice = Question("w1", "window full", "", None, 96.0, options, "choice")
    state = replace(compacting_state(), questions=(choice,))
    assert text(status_row(state, PLAIN_ROW, 100.2, 80)).startswith(
        " ? window full · 0:04   Tab to answer "
    )
    focused = text(status_row(state, StatusContext(question_focused=True), 100.2, 80))
    assert "window full" in focused and "Tab" not in focused
    long = replace(
        choice,
        name="Undoing 373 brings the next request from 28,600 to 116,200 tokens, too much",
    )
    row = text(status_row(replace(state, questions=(long,)), PLAIN_ROW, 100.2, 60))
    assert "…" in row and f"Tab {TO_ANSWER}" in row


def test_queue_rows_mark_pause_and_keep_their_note() -> None:
    waiting = compacting_state().waiting
    held, first, second = (text(line) for line in queue_rows(waiting, None, HEAVY, 120))
    assert held.startswith("┃ held Now the same") and held.endswith(
        "sent after compacting ┃"
    )
    assert first.startswith("┃ 1    Then update")
    assert second.endswith(f"{MARK_QUEUED.format(older='↑')} ┃")
    paused = [
        text(line)
        for line in queue_rows(replace(waiting, paused=True), None, HEAVY, 120)
    ]
    assert all("‖" in line for line in paused)
    assert waiting_words(waiting) == "1 held, 2 queued"
    asked, *_ = (
        text(line) for line in queue_rows(waiting, None, HEAVY, 120, asks_user=True)
    )
    assert asked.endswith(f"{HELD_FOR_ANSWER} ┃")


def test_a_long_queue_shows_the_marked_prompt() -> None:
    waiting = Waiting(queued=tuple(f"prompt {number}" for number in range(20)))
    shown = "\n".join(text(line) for line in queue_rows(waiting, 12, HEAVY, 80))
    assert "prompt 12" in shown and shown.count("\n") == 4


def test_an_error_goes_before_what_runs_and_later_gives_way() -> None:
    state = replace(running_state(), news=News("The disk is full.", "error", 100.0))
    assert "✗ The disk is full." in text(status_row(state, PLAIN_ROW, 101.0, 80))
    assert "Running" in text(status_row(state, PLAIN_ROW, 120.0, 80))
    idle = ChatState(news=News("The disk is full.", "error", 100.0))
    assert "✗ The disk is full." in text(status_row(idle, PLAIN_ROW, 999.0, 80))


THROTTLED = "https://api.example.com/v1 limits how often kimi-k2 can be used (429): wait and send again."


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (
            120,
            "Trying again in 3 s · 2 of 3   api.example.com limits how often kimi-k2 can be used (429)",
        ),
        (
            80,
            "Trying again in 3 s · 2 of 3   api.example.com limits h… (429)  Esc gives up",
        ),
        (60, "Trying again in 3 s · 2 of 3                Esc gives up"),
        (40, "Trying again in 3 s     Esc gives up"),
    ],
)
def test_a_retry_counts_down_and_says_why_as_far_as_there_is_room(
    width: int, shown: str
) -> None:
    state = ChatState(
        activity=Stepping(102.6, "kimi-k2", again=RetryWait(102.6, THROTTLED, 2, 3))
    )
    row = text(status_row(state, StatusContext(escape="Esc gives up"), 100.2, width))
    assert shown in row and row.rstrip().endswith("Esc gives up")


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        (
            "Cannot connect to http://127.0.0.1:1/v1 (refused): check that it runs.",
            "connect to 127.0.0.1:1 (r",
        ),
        (
            "Cannot connect to http://127.0.0.1:1/v1: check that it runs.",
            "connect to 127.0.0.1:1   ",
        ),
        (
            "http://h:1/v1 ended the answer before it was complete: try again.",
            "h:1 ended the answer before",
        ),
        ("[/nope]", "3   [/nope]   "),
    ],
)
def test_why_a_retry_waits_names_the_server_and_what_it_did(
    sentence: str, shown: str
) -> None:
    state = ChatState(activity=Stepping(102.6, again=RetryWait(102.6, sentence, 2, 3)))
    assert shown in text(status_row(state, PLAIN_ROW, 100.2, 120))


def test_after_its_wait_what_runs_again_is_shown_and_a_draft_is_counted_from_its_start() -> (
    None
):
    again = RetryWait(102.6, THROTTLED, 1, 3)
    step = ChatState(activity=Stepping(102.6, "kimi-k2", again=again))
    assert "Waiting · kimi-k2 · 0:02" in text(status_row(step, PLAIN_ROW, 104.7, 80))
    compaction = replace(
        compacting_state(),
        compacting=replace(compacting_state().compacting, again=again),
    )
    assert "Trying again in 3 s · 1 of 3" in text(
        status_row(compaction, PLAIN_ROW, 100.2, 80)
    )
    assert "Compacting" in text(status_row(compaction, PLAIN_ROW, 102.6, 80))
    assert "Cancelling" in text(
        status_row(replace(compaction, cancelling=True), PLAIN_ROW, 100.2, 80)
    )


def test_a_notice_takes_its_turn_when_nothing_runs_and_then_goes() -> None:
    state = ChatState(news=News(NOTHING_TO_COMPACT, "info", 100.0))
    assert NOTHING_TO_COMPACT in text(status_row(state, PLAIN_ROW, 105.0, 80))
    assert text(status_row(state, PLAIN_ROW, 111.0, 80)).strip() == ""
    assert next_change(state, 105.0) == pytest.approx(5.0)
    assert next_change(state, 111.0) is None
    assert "Running" in text(
        status_row(replace(running_state(), news=state.news), PLAIN_ROW, 101.0, 80)
    )


def test_an_idle_screen_asks_for_no_time() -> None:
    assert next_change(ChatState(), 5.0) is None
    assert next_change(running_state(), 5.0) is not None


def test_a_row_gives_up_the_highest_rank_first_and_cuts_last() -> None:
    left = [piece("a long left side", cut="right")]
    right = [piece("keep"), piece("second", rank=1), piece("first", rank=2)]
    assert "first" not in text(row(left, right, 36))
    assert "second" in text(row(left, right, 36))
    narrow = text(row(left, right, 16))
    assert narrow.endswith(" keep ") and "…" in narrow and cell_len(narrow) == 16


def test_a_row_cuts_paths_at_the_left_and_wide_signs_whole() -> None:
    path = text(
        row([RowPiece((("src/shop/orders/service.py", ""),), cut="left")], [], 16)
    )
    assert path.strip().endswith("service.py") and path.strip().startswith("…")
    wide = text(row([piece("幂等订单移动端重试", cut="right")], [], 10))
    assert cell_len(wide) == 10 and "…" in wide


def test_the_side_list_shortens_the_longest_section_and_says_so() -> None:
    lines = [
        text(line)
        for line in sidebar(sidebar_data([f"f{n}.py" for n in range(40)]), 33, 25)
    ]
    assert any("… " in line and "more" in line for line in lines)
    assert any("Compactions" in line for line in lines)
    assert lines[-1].startswith("│ ┃ whole")


def test_completions_show_the_marked_one_and_cut_paths_left() -> None:
    shown = [
        Completion("x", f"src/{'deep/' * 20}file{number}.py") for number in range(30)
    ]
    lines = [text(line) for line in completion_lines("files", shown, 25, 60)]
    assert len(lines) == 12
    assert all(cell_len(line) == 60 for line in lines)
    marked = next(line for line in lines if "▶" in line)
    assert "file25.py" in marked and "…" in marked


# --- The end of the cache -----------------------------------------------------------------------------

COLD = CacheEnds(200.0, 180_000, 0.54)


def said_of(cache: CacheEnds, now: float, width: int = 120) -> str:
    spans = status_row(ChatState(cache=cache), StatusContext(), now, width)
    return "".join(text for text, _ in spans).strip()


def test_a_cold_cache_says_what_the_next_request_costs() -> None:
    assert said_of(COLD, 199.0) == ""
    whole = f"{CACHE_EXPIRED.format(size='180k')} ≈ $0.54"
    assert said_of(COLD, 200.0) == said_of(COLD, 200.0, 70) == whole


def test_without_a_price_a_cold_cache_is_said_in_tokens() -> None:
    unpriced = said_of(CacheEnds(200.0, 180_000), 201.0)
    assert unpriced == CACHE_EXPIRED.format(size="180k")


def test_what_runs_and_news_go_before_the_end_of_the_cache() -> None:
    busy = replace(running_state(), cache=COLD)
    assert "cache" not in "".join(
        text for text, _ in status_row(busy, StatusContext(), 300.0, 120)
    )
    state = ChatState(cache=COLD, news=News("Something else", "info", 299.0))
    assert "cache" not in "".join(
        text for text, _ in status_row(state, StatusContext(), 300.0, 120)
    )


def test_the_row_wakes_for_the_end_of_the_cache_and_not_before() -> None:
    assert next_change(ChatState(cache=COLD), 100.0) == pytest.approx(100.0)
    assert next_change(ChatState(cache=COLD), 200.0) is None
