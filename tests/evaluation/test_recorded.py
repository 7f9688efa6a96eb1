"""A session's own compactions as an arm: its views, its moments, and others at equal size."""

from pathlib import Path

import pytest

from foldline.evaluation.arms import Recording, of_possible, recording
from foldline.evaluation.comparison import Cell, NotCompared, Setup, Subject, compare
from foldline.evaluation.replay import recorded_messages
from foldline.formats import read_foreign
from foldline.protocol import AssistantMessage, Compaction, SystemMessage, Written, text_parts
from support.compared import METER
from support.history import History, history
from support.recorded import SHARED, needs_recorded

WORK = "settled_name_{n} stands in src/part_{n}/unit_{n}.py\n" + "more of it, said at length\n" * 120


def compacted() -> History:
    """Six reads, the session's own compaction to a short summary, answers that go back to what was read."""
    built = history().system("s").user("Go through all of it.")
    for n in range(6):
        built.step("read", WORK.format(n=n), path=f"src/part_{n}/unit_{n}.py")
    written = Written(message=SystemMessage(origin="summary", parts=text_parts("They settled_name_1.")))
    built.add(Compaction(summary="They settled_name_1.", first_kept_index=built.last + 1, head=(written,)))
    for n in range(6):
        built.step("bash", "ok", command=f"grep settled_name_{n} src/part_{n}/unit_{n}.py")
    return built.assistant("Done.")


def own(built: History) -> Recording:
    found = recording(built.entries, session="made", meter=METER)
    assert found is not None
    return found


async def cells_of(built: History, *arms: str, windows: tuple[int, ...] = ()) -> dict[str, Cell]:
    subject = Subject(
        "made", recorded_messages(built.entries), Path("/"),
        recording=recording(built.entries, session="made", meter=METER),
    )  # fmt: skip
    found = [cell async for cell in compare([subject], Setup(arms=arms, windows=windows, meter=METER))]
    return {cell.run.strategy: cell for cell in found if isinstance(cell, Cell)}


def test_its_requests_are_the_views_its_own_agent_had() -> None:
    found = own(compacted())
    [compaction] = found.run.compactions
    first_after = found.run.requests[compaction.requests]
    assert [message.text for message in first_after.messages] == ["s", "They settled_name_1."]
    assert found.run.history == recorded_messages(compacted().entries)
    assert set(found.sizes.values()) == {sum(map(METER.tokens, first_after.messages))}


def test_a_session_that_never_compacted_has_none() -> None:
    built = history().user("q").assistant("a")
    assert recording(built.entries, session="made", meter=METER) is None


async def test_others_compact_at_the_same_moment_to_no_more_where_they_can() -> None:
    found = await cells_of(compacted(), "raw", "recorded", "digest", "hide")
    moments = {name: [c.requests for c in cell.run.compactions] for name, cell in found.items()}
    steps = {
        name: [sum(sent.kind == "step" for sent in cell.run.requests[:count]) for count in moments[name]]
        for name, cell in found.items()
    }
    assert steps["recorded"] == steps["digest"] == steps["hide"] == [6]
    assert steps["raw"] == []
    assert {cell.run.window for cell in found.values()} == {0}


async def test_recall_counts_from_the_first_compaction_on() -> None:
    found = await cells_of(compacted(), "raw", "recorded")
    raw, recorded = (found[name].figures.recall for name in ("raw", "recorded"))
    assert raw.grounded == 1
    assert recorded.all.needs == raw.all.needs
    assert recorded.grounded is not None
    assert 0 < recorded.grounded < 0.5


async def test_a_session_without_a_compaction_of_its_own_is_named() -> None:
    subject = Subject("made", recorded_messages(history().user("q").assistant("a").entries), Path("/"))
    setup = Setup(arms=["recorded"], windows=[], meter=METER)
    [found] = [cell async for cell in compare([subject], setup)]
    assert found == NotCompared("made", 0, "no compaction of its own can be read")


async def test_the_oracle_holds_what_comes_where_the_digest_does_not() -> None:
    built = history().system("s").user("Go through all of it.")
    for n in range(160):
        built.step("read", WORK.format(n=n), path=f"src/part_{n}/unit_{n}.py")
    for n in range(60):
        built.step("bash", "ok", command=f"grep settled_name_{n} src/part_{n}/unit_{n}.py")
    found = await cells_of(built, "digest", "oracle", windows=(16_384,))
    digest, oracle = (found[name].figures for name in ("digest", "oracle"))
    assert oracle.recall.grounded == pytest.approx(1, abs=0.02)
    assert of_possible(digest.recall.grounded, oracle.recall.grounded) < 0.9  # type: ignore[operator]
    assert oracle.violations == ()


@needs_recorded
@pytest.mark.slow
@pytest.mark.parametrize("name", ["claude-code/entire-manual-compact.jsonl", "pi/pimono-v1-2comp.jsonl"])
def test_recorded_sessions_are_replayed_as_their_agents_held_them(name: str) -> None:
    entries = read_foreign(SHARED / name).entries
    found = recording(entries, session=name, meter=METER)
    assert found is not None
    answers = [sent.answer for sent in found.run.requests if sent.kind == "step"]
    assert answers == [m.index for m in recorded_messages(entries) if isinstance(m, AssistantMessage)]
    assert len(found.sizes) == len(found.run.compactions)
