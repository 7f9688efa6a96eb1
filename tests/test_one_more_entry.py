"""Whatever follows a history costs the same for one more entry, however many there are."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from unittest.mock import patch

import pytest

from foldline.agent import Agent
from foldline.agent.session.state import AgentState
from foldline.agent.turn.calls import Calls
from foldline.agent.turn.reminders import Reminders
from foldline.agent.turn.turn import Turn
from foldline.frontend.figures import Figures
from foldline.history import Session
from foldline.history.log import ByteRange
from foldline.history.stored import Records, StoredEntries
from foldline.memory.todos import newly_completed
from foldline.past.files import FileLedger
from foldline.past.moments import at_request, first_entry, since_request
from foldline.protocol import (
    AssistantMessage,
    Checkpoint,
    Compaction,
    Edit,
    Entry,
    FileTouch,
    RequestRecord,
    SessionHeader,
    SystemMessage,
    ToolCallPart,
    ToolDetails,
    ToolResultMessage,
    Undo,
    Usage,
    UserMessage,
    Written,
    text_parts,
)
from foldline.protocol.entries import EditAction
from foldline.tui.blocks.view import BlockView
from foldline.tui.chat.sidebar import sidebar
from foldline.tui.transcript.feed import ChatTranscript
from foldline.view.calls import unanswered
from foldline.view.projection import Projection
from foldline.view.weight import categories, request_breakdown, view_size
from support.agents import PlayedLLM
from support.effort import Effort, effort_of, typical
from support.live import NOON

SHORT, LONG = 1_000, 20_000
"""Entries."""
ROUNDS = 5
SAME = 1.5
"""What is not linear may grow by the logarithm: 1.44 from 1,000 to 20,000."""
SPARE = Effort(100, 4_096)
"""Differences that say nothing: a longer number, a block of memory."""


def entries() -> Iterator[Entry]:
    """Turns with everything in them that comes with a turn, without end. Each touches another file."""
    yield SystemMessage(index=0, parts=text_parts("You are careful."))
    index = 1
    while True:
        used = Usage(input=40 * index, output=20)
        call = ToolCallPart(call_id=f"c{index}", name="todo", arguments='{"todos": []}')
        touched = ToolDetails(
            brief="3 lines", files=(FileTouch(path=f"src/{index}.py", action="read"),)
        )
        record = RequestRecord(
            digest="0" * 64,
            model="m",
            dialect="strict",
            estimated=40 * index,
            usage=used,
        )
        for number, entry in enumerate(
            (
                Checkpoint(id=index),
                UserMessage(parts=text_parts("Change the handler.")),
                AssistantMessage(parts=(call,), model="m", usage=used),
                record.model_copy(update={"after": index + 2}),
                ToolResultMessage(
                    call_id=call.call_id,
                    name="todo",
                    parts=text_parts("done"),
                    details=touched,
                ),
                AssistantMessage(
                    parts=text_parts("It is changed."), model="m", usage=used
                ),
                record.model_copy(update={"after": index + 5}),
            )
        ):
            yield entry.model_copy(update={"index": index + number, "at": NOON})
        index += 7


@dataclass
class Grown:
    """A session of so many entries, and all that follows it, up to date."""

    session: Session
    state: AgentState
    more: Iterator[Entry]
    """What will come."""

    @property
    def projection(self) -> Projection:
        return self.session.projection

    def turn(self) -> list[Entry]:
        """What the next turn appends."""
        return list(islice(self.more, 7))


@cache
def grown(length: int) -> Grown:
    """One for all tests: they add a few turns each."""
    told = entries()
    held = list(islice(told, length - length % 7 + 1))
    session = Session.from_entries(
        SessionHeader(id="s", created_at=NOON, cwd="/work"), held
    )
    return Grown(session, Agent(session, llm=PlayedLLM(window=100_000_000)).state, told)


Follower = Callable[[Grown], Callable[[Entry], object]]
"""Makes what follows a session; that is then called with each entry, right after it was appended."""


def follows(look: Callable[[Grown], object]) -> Follower:
    return lambda of: lambda _: look(of)


def the_meter(of: Grown) -> Callable[[Entry], object]:
    made = Figures(of.state)
    return lambda _: (made.room(), made.undo_adds(), made.unanswered())


def the_side_list(of: Grown) -> Callable[[Entry], object]:
    made = Figures(of.state)
    return lambda _: sidebar(made.sidebar(), 33, 40)


def the_file_list(of: Grown) -> Callable[[Entry], object]:
    ledger = FileLedger()
    return lambda _: ledger.newest(of.projection, 50)


def the_timeline(of: Grown) -> Callable[[Entry], object]:
    def look(_: Entry) -> object:
        number = len(of.projection.meter.requests)
        since = at_request(of.projection, number).length
        return first_entry(of.projection, None), since_request(
            of.projection, number, since
        )

    return look


def the_transcript(of: Grown) -> Callable[[Entry], object]:
    transcript = ChatTranscript(BlockView(), of.projection)
    transcript.show(transcript.read(of.session.entries))

    def add(entry: Entry) -> None:
        transcript.add(entry)
        transcript.flush()
        list(transcript.reweigh())

    return add


def the_entries_on_disk(of: Grown) -> Callable[[Entry], object]:
    stored = StoredEntries(Records(Path("none")))
    stored.extend(
        of.session.entries.outlines, [ByteRange(0, 10)] * len(of.session.entries)
    )
    projection = Projection(stored)

    def written(entry: Entry) -> None:
        stored.add_written(entry, ByteRange(0, 10))
        projection.follow()

    return written


def the_next_turn(of: Grown) -> Callable[[Entry], object]:
    """Its beginning, but for the files of the turn before and what is written."""
    turn = Turn(of.state, Calls(of.state), Reminders(of.state))

    async def nothing(*_: object, **__: object) -> None:
        return

    def begin(_: Entry) -> None:
        with (
            patch.object(of.session, "append", nothing),
            patch.object(turn, "_settle", nothing),
            suppress(StopIteration),
        ):
            turn.begin(UserMessage(parts=text_parts("Go on."))).send(None)
            raise AssertionError("it waits for something")

    return begin


FOLLOWERS: dict[str, Follower] = {
    "the compaction alone": follows(lambda _: None),
    "the size of the next request": follows(lambda of: view_size(of.projection)),
    "its weights": follows(lambda of: categories(of.projection)),
    "its categories": follows(lambda of: request_breakdown(of.projection, ())),
    "the meter": the_meter,
    "the side list": the_side_list,
    "the file list": the_file_list,
    "the timeline": the_timeline,
    "the transcript": the_transcript,
    "the entries on disk": the_entries_on_disk,
    "what a list of sessions shows": follows(lambda of: of.session.meta()),
    "whether a todo is done": follows(lambda of: newly_completed(of.projection)),
    "whether an answer is missing": follows(lambda of: unanswered(of.projection)),
    "the next turn": the_next_turn,
    "the room for results": follows(lambda of: of.state.budget.room_for_results()),
}


@pytest.mark.parametrize("name", FOLLOWERS)
def test_what_one_more_entry_costs_does_not_grow(name: str) -> None:
    short, long = (
        _of_a_turn(FOLLOWERS[name], grown(length)) for length in (SHORT, LONG)
    )
    assert long.instructions <= SAME * short.instructions + SPARE.instructions
    assert long.memory <= SAME * short.memory + SPARE.memory


def _of_a_turn(follower: Follower, of: Grown) -> Effort:
    follow = follower(of)

    def turn() -> None:
        for entry in coming.pop(0):
            of.session.take_in((entry,))
            follow(entry)

    efforts = []
    for entry in of.turn():
        of.session.take_in((entry,))
        follow(entry)  # the first look at all of it
    for _ in range(ROUNDS):
        coming = [of.turn(), of.turn()]
        efforts.append(effort_of(turn))
    return typical(efforts)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("action", ["hide", "show", "pin", "unpin", "drop"])
def test_an_edit_of_what_came_last_looks_at_no_more_of_a_longer_view(
    action: EditAction,
) -> None:
    short, long = (_of_an_edit(action, grown(length)) for length in (SHORT, LONG))
    assert long.instructions <= SAME * short.instructions + SPARE.instructions


def _of_an_edit(action: EditAction, of: Grown) -> Effort:
    """The compaction of it, what the meter and the side list make of it."""
    projection, ledger = of.projection.fork(), FileLedger()
    target = next(
        item.index
        for item in reversed(projection.view)
        if item.outline.type == "tool_result"
    )

    def look() -> object:
        return categories(projection), ledger.newest(projection, 50)

    def edit() -> None:
        projection.append(
            Edit(index=projection.last_index + 1, target=target, action=action)
        )
        look()

    look()
    return effort_of(edit)


def test_a_compaction_and_its_undo_cost_the_side_list_no_more_in_a_longer_session() -> (
    None
):
    """What the model has of a file changes for all of them; it is looked up for those that are shown."""
    short, long = (_of_a_compaction(grown(length)) for length in (SHORT, LONG))
    assert long.instructions <= SAME * short.instructions + SPARE.instructions
    assert long.memory <= SAME * short.memory + SPARE.memory


def _of_a_compaction(of: Grown) -> Effort:
    projection, ledger = of.projection.fork(), FileLedger()
    ledger.newest(projection, 50)
    index = projection.last_index + 1
    summary = SystemMessage(origin="summary", parts=text_parts("so far"))
    head = (Written(message=summary, covers=((1, index - 1),)),)
    efforts = []
    for marker in (
        Compaction(index=index, first_kept_index=index, head=head),
        Undo(target=index),
    ):
        projection.append(
            marker.model_copy(update={"index": projection.last_index + 1})
        )
        efforts.append(effort_of(lambda: ledger.newest(projection, 50)))
    return max(efforts, key=lambda effort: effort.instructions)
