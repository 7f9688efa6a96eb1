"""Going back to a checkpoint: context, files or both; never over what somebody else did; and back again."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from foldline.agent import Agent
from foldline.agent.session.file_records import (
    LINK_CHANGED,
    NOT_A_FILE,
    UNREADABLE,
    append_checkpoint,
    record_others_changes,
    recorder,
)
from foldline.agent.session.rewind import (
    CHANGED_BY_OTHERS,
    CURRENT_NOT_SAVED,
    KEPT,
    NO_CHECKPOINT,
    NOT_COMPARED,
    NOT_SAVED,
    REMOVED,
    RESTORED,
    diffs_since,
    foresee,
)
from foldline.history import CONTENTS, Contents, Session
from foldline.history.contents import share_files
from foldline.past.files import file_lists
from foldline.past.rewind_points import (
    RECORDED_ELSEWHERE,
    WRITTEN_AGAIN,
    rewind_points,
)
from foldline.protocol import (
    BaseMessage,
    Checkpoint,
    FileImage,
    Revert,
    UserMessage,
    operations,
    text_parts,
)
from foldline.protocol.events import TaskFinished
from foldline.view.rules import broken
from support.agents import Hang, PlayedLLM, Watch, agent_in, reload_session, tool_reply


def write(path: str, content: str) -> tuple[str, dict[str, Any]]:
    return ("write", {"path": path, "content": content})


def edit(path: str, old: str, new: str) -> tuple[str, dict[str, Any]]:
    return ("edit", {"path": path, "old": old, "new": new})


async def do(agent: Agent, operation: operations.Operation) -> TaskFinished:
    return await agent.executor.wait_for(agent.executor.submit(operation))


async def back(agent: Agent, checkpoint: int, **options: Any) -> TaskFinished:
    return await do(agent, operations.Rewind(checkpoint=checkpoint, **options))


def said(agent: Agent) -> list[str]:
    """What the model would be sent, the system prompt apart."""
    return [
        item.message.text
        for item in agent.session.projection.view
        if item.kind != "system"
    ]


async def worked(folder: Path) -> tuple[Agent, Watch]:
    """Two turns: the first makes b.txt and changes a.txt, the second changes a.txt again."""
    (folder / "a.txt").write_text("one\n")
    llm = PlayedLLM(
        tool_reply(write("b.txt", "new\n"), edit("a.txt", "one", "two")),
        "first done",
        tool_reply(edit("a.txt", "two", "three")),
        "second done",
    )
    agent, watch = agent_in(folder, llm)
    await agent.prompt("first")
    await agent.prompt("second")
    return agent, watch


def before_prompt(agent: Agent, text: str) -> int:
    return next(
        place.id
        for place in rewind_points(agent.session.projection)
        if place.prompt == text
    )


async def test_the_context_falls_back_to_before_a_prompt_and_the_files_stay(
    tmp_path: Path,
) -> None:
    agent, _ = await worked(tmp_path)
    await back(agent, before_prompt(agent, "second"))
    assert (
        said(agent)[-1] == "first done"
        and (tmp_path / "a.txt").read_text() == "three\n"
    )
    assert broken(agent.session.projection) == []


async def test_files_go_back_to_what_they_held_and_new_ones_go_again(
    tmp_path: Path,
) -> None:
    agent, watch = await worked(tmp_path)
    await back(agent, before_prompt(agent, "first"), context=False, files=True)
    assert (tmp_path / "a.txt").read_text() == "one\n" and not (
        tmp_path / "b.txt"
    ).exists()
    assert said(agent)[-1] == "second done"
    done = (RESTORED.format(paths="a.txt"), REMOVED.format(paths="b.txt"))
    assert watch.notices == [" ".join(done)]


async def test_both_go_back_at_once_and_the_file_lists_forget_what_was_restored(
    tmp_path: Path,
) -> None:
    agent, _ = await worked(tmp_path)
    await back(agent, before_prompt(agent, "second"), files=True)
    assert (tmp_path / "a.txt").read_text() == "two\n" and said(agent)[
        -1
    ] == "first done"
    assert file_lists(agent.session.projection).modified_files == ("b.txt", "a.txt")
    await back(agent, before_prompt(agent, "first"), files=True)
    assert file_lists(agent.session.projection).modified_files == ()


async def test_what_somebody_else_changed_is_shown_and_stays_as_it_is(
    tmp_path: Path,
) -> None:
    agent, watch = await worked(tmp_path)
    (tmp_path / "a.txt").write_text("mine\n")
    first = before_prompt(agent, "first")
    foreseen = await foresee(agent.state, operations.Rewind(checkpoint=first))
    assert {change.path: change.kind for change in foreseen.files} == {
        "a.txt": "conflict",
        "b.txt": "remove",
    }
    await back(agent, first, files=True)
    assert (tmp_path / "a.txt").read_text() == "mine\n" and not (
        tmp_path / "b.txt"
    ).exists()
    assert watch.notices[-1].endswith(
        KEPT.format(path="a.txt", reason=CHANGED_BY_OTHERS)
    )


async def test_a_file_that_cannot_be_read_is_neither_deleted_nor_overwritten(
    tmp_path: Path,
) -> None:
    agent, watch = await worked(tmp_path)
    (tmp_path / "b.txt").unlink()
    (tmp_path / "b.txt").mkdir()
    await back(agent, before_prompt(agent, "first"), files=True)
    assert (tmp_path / "b.txt").is_dir() and (tmp_path / "a.txt").read_text() == "one\n"
    assert KEPT.format(path="b.txt", reason=NOT_A_FILE) in watch.notices[-1]


async def test_a_content_that_is_not_there_any_more_is_said_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    agent, watch = await worked(tmp_path)
    assert agent.session.path is not None
    for kept in (agent.session.path.parent / CONTENTS).iterdir():
        kept.unlink()
    await back(agent, before_prompt(agent, "second"), files=True)
    assert (tmp_path / "a.txt").read_text() == "three\n"
    assert watch.notices[-1] == KEPT.format(path="a.txt", reason=NOT_SAVED)


async def test_where_no_file_can_be_put_back_nothing_is_recorded(
    tmp_path: Path,
) -> None:
    agent, _ = await worked(tmp_path)
    (tmp_path / "a.txt").write_text("mine\n")
    ended = await back(agent, before_prompt(agent, "second"), context=False, files=True)
    assert ended.outcome == "failed" and CHANGED_BY_OTHERS in str(ended.error)
    assert not any(isinstance(entry, Revert) for entry in agent.session.entries)


async def test_it_works_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOLDLINE_HOME", str(tmp_path.parent / f"{tmp_path.name}-home"))
    agent, _ = await worked(tmp_path)
    await agent.aclose()
    again = Agent(reload_session(agent), llm=PlayedLLM(), approvals="all")
    await back(again, before_prompt(again, "first"), files=True)
    assert (tmp_path / "a.txt").read_text() == "one\n" and not (
        tmp_path / "b.txt"
    ).exists()
    await do(
        again,
        operations.UndoCompaction(target=again.session.projection.markers[-1].index),
    )
    assert (tmp_path / "a.txt").read_text() == "three\n" and (
        tmp_path / "b.txt"
    ).read_text() == "new\n"
    assert reload_session(again).projection.view[-1].message.text == "second done"


async def test_it_reaches_across_a_compaction_and_the_undo_brings_the_compaction_back(
    tmp_path: Path,
) -> None:
    agent, _ = agent_in(tmp_path, PlayedLLM("one", "two"), compaction="summary")
    await agent.prompt("first " * 500)
    await agent.prompt("second")
    before = said(agent)
    await do(agent, operations.CompactSession(reason="manual"))
    compacted = said(agent)
    assert compacted != before
    await back(agent, before_prompt(agent, "second"))
    assert said(agent) == before[: before.index("second")]
    await do(
        agent,
        operations.UndoCompaction(target=agent.session.projection.markers[-1].index),
    )
    assert said(agent) == compacted


async def test_after_the_context_fell_back_an_edit_wants_the_file_read_again(
    tmp_path: Path,
) -> None:
    agent, _ = await worked(tmp_path)
    await back(agent, before_prompt(agent, "second"))
    agent.state.models.llm.script.extend(
        [tool_reply(edit("a.txt", "three", "four")), "ok"]
    )  # type: ignore[attr-defined]
    await agent.prompt("again")
    assert (tmp_path / "a.txt").read_text() == "three\n"
    assert any("changed on disk since it was last read" in text for text in said(agent))


async def test_it_ends_the_turn_that_runs(tmp_path: Path) -> None:
    agent, _ = agent_in(tmp_path, PlayedLLM("done", Hang("half")))
    await agent.prompt("first")
    running = agent.executor.submit(
        operations.RunAgent.model_validate({"parts": [{"type": "text", "text": "2"}]})
    )
    await agent.state.models.llm.silent.wait()  # type: ignore[attr-defined]
    first = before_prompt(agent, "first")
    await back(agent, first)
    assert (await agent.executor.wait_for(running)).outcome == "cancelled"
    assert said(agent) == []


async def test_cancelled_in_the_middle_it_is_carried_through(tmp_path: Path) -> None:
    agent, _ = await worked(tmp_path)
    task = agent.executor.submit(
        operations.Rewind(checkpoint=before_prompt(agent, "first"), files=True)
    )
    await asyncio.sleep(0)
    agent.executor.submit(operations.Interrupt())
    await agent.executor.wait_for(task)
    recorded = any(isinstance(entry, Revert) for entry in agent.session.entries)
    assert ((tmp_path / "a.txt").read_text() == "one\n") is recorded


async def test_an_unknown_checkpoint_is_one_sentence(tmp_path: Path) -> None:
    agent, _ = await worked(tmp_path)
    ended = await back(agent, 99)
    assert ended.error == NO_CHECKPOINT.format(id=99)


async def test_a_change_is_on_disk_before_the_file_is_touched(tmp_path: Path) -> None:
    agent, _ = await worked(tmp_path)
    changes = [
        entry
        for entry in agent.session.entries
        if isinstance(entry, Checkpoint) and entry.files
    ]
    results = [
        entry.index for entry in agent.session.entries if entry.type == "tool_result"
    ]
    assert [change.files[0].path for change in changes] == ["b.txt", "a.txt", "a.txt"]
    assert all(
        change.index < index for change, index in zip(changes, results, strict=True)
    )


async def test_a_change_that_cannot_be_recorded_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("foldline.history.contents.Contents.keep", refuse)
    (tmp_path / "a.txt").write_text("one\n")
    agent, _ = agent_in(
        tmp_path, PlayedLLM(tool_reply(edit("a.txt", "one", "two")), "ok")
    )
    await agent.prompt("change it")
    assert (tmp_path / "a.txt").read_text() == "one\n"
    assert any("could not be recorded" in text for text in said(agent))


async def test_a_link_is_followed_as_the_edit_followed_it(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "real.txt").write_text("one\n")
    (folder / "a.txt").symlink_to(tmp_path / "real.txt")
    agent, _ = agent_in(
        folder, PlayedLLM(tool_reply(edit("a.txt", "one", "two")), "ok")
    )
    await agent.prompt("change it")
    await back(agent, before_prompt(agent, "change it"), files=True)
    assert (folder / "a.txt").is_symlink() and (
        tmp_path / "real.txt"
    ).read_text() == "one\n"


async def test_a_path_that_leads_elsewhere_by_now_is_not_followed(
    tmp_path: Path,
) -> None:
    folder, outside = tmp_path / "work", tmp_path / "outside"
    (folder / "sub").mkdir(parents=True)
    outside.mkdir()
    agent, watch = agent_in(
        folder, PlayedLLM(tool_reply(write("sub/new.txt", "x")), "ok")
    )
    await agent.prompt("write it")
    (folder / "sub").rename(folder / "moved")
    (folder / "sub").symlink_to(outside)
    (outside / "new.txt").write_text("x")
    await back(agent, before_prompt(agent, "write it"), files=True)
    assert (outside / "new.txt").exists()
    assert watch.notices[-1] == KEPT.format(path="sub/new.txt", reason=LINK_CHANGED)


async def test_each_turn_and_each_step_is_a_place_to_go_back_to(tmp_path: Path) -> None:
    agent, _ = await worked(tmp_path)
    listed = [
        (place.kind, place.label, place.changes)
        for place in rewind_points(agent.session.projection)
    ]
    assert listed == [
        ("step", "edit a.txt", 0),
        ("step", "the prompt", 1),
        ("turn", "second", 1),
        ("step", "edit a.txt", 1),
        ("step", "the prompt", 2),
        ("turn", "first", 2),
    ]


async def test_what_was_reverted_is_no_place_any_more(tmp_path: Path) -> None:
    agent, _ = await worked(tmp_path)
    await back(agent, before_prompt(agent, "second"))
    assert {place.prompt for place in rewind_points(agent.session.projection)} == {
        "first",
        "",
    }
    assert not any(
        isinstance(m, BaseMessage) and m.text == "second done"
        for m in agent.session.projection.view
    )


async def test_what_could_not_be_brought_back_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foldline.history.contents.LARGEST_KEPT", 10)
    llm = PlayedLLM(
        tool_reply(
            write("a.txt", "long enough not to be kept"), write("b.txt", "short")
        ),
        "ok",
    )
    agent, watch = agent_in(tmp_path, llm)
    await agent.prompt("write them")
    await back(agent, before_prompt(agent, "write them"), files=True)
    assert (tmp_path / "a.txt").read_text() == "long enough not to be kept"
    assert not (tmp_path / "b.txt").exists()
    assert KEPT.format(path="a.txt", reason=CURRENT_NOT_SAVED) in watch.notices[-1]


async def test_a_tool_that_is_still_writing_is_waited_for(tmp_path: Path) -> None:
    """A call that was cancelled goes on in its thread, holding the lock of the files."""
    agent, _ = await worked(tmp_path)
    first = before_prompt(agent, "first")
    record, loop = recorder(agent.session), asyncio.get_running_loop()
    holds, written = asyncio.Event(), []

    def still_writing() -> None:
        with agent.state.tools.known_files.lock:
            loop.call_soon_threadsafe(holds.set)
            record(tmp_path / "b.txt", tmp_path / "b.txt", b"new\n", b"late\n")
            (tmp_path / "b.txt").write_text("late\n")
            written.append("late")

    late = asyncio.create_task(asyncio.to_thread(still_writing))
    await holds.wait()
    await back(agent, first, files=True)
    assert written and not (tmp_path / "b.txt").exists()
    await late


@pytest.mark.parametrize("name", ["../" * 40 + "dev/zero", "/dev/zero", "a\0b", ""])
async def test_a_recorded_content_is_only_ever_looked_for_among_those_that_were_kept(
    tmp_path: Path, name: str
) -> None:
    agent, watch = await worked(tmp_path)
    first = before_prompt(agent, "first")
    await append_checkpoint(
        agent.session, [FileImage(path="made.txt", before=name, after=None)]
    )
    await back(agent, first, files=True)
    assert KEPT.format(path="made.txt", reason=NOT_SAVED) in watch.notices[-1]


async def test_a_recorded_path_that_is_none_keeps_no_other_file_from_going_back(
    tmp_path: Path,
) -> None:
    agent, watch = await worked(tmp_path)
    first = before_prompt(agent, "first")
    await append_checkpoint(
        agent.session, [FileImage(path="a\0b", before="0" * 64, after=None)]
    )
    await back(agent, first, files=True)
    assert (tmp_path / "a.txt").read_text() == "one\n"
    assert UNREADABLE.format(reason="no file can have this name") in watch.notices[-1]


async def test_files_of_an_imported_session_are_never_restored(
    tmp_path: Path,
) -> None:
    """What a history from elsewhere says of files is not our own record: anybody may have written it."""
    agent, _ = await worked(tmp_path)
    await agent.aclose()
    imported = await Session.from_entries(
        agent.session.header, agent.session.entries
    ).copy(home=tmp_path / "h")
    assert agent.session.path is not None and imported.path is not None
    share_files(agent.session.path.parent, imported.path.parent)
    fork = await imported.copy(home=tmp_path / "h")
    for session in (imported, fork):
        again = Agent(session, llm=PlayedLLM(), approvals="all")
        first = before_prompt(again, "first")
        ended = await back(again, first, context=False, files=True)
        assert RECORDED_ELSEWHERE in str(ended.error)
        assert (tmp_path / "a.txt").read_text() == "three\n" and (
            tmp_path / "b.txt"
        ).exists()


async def test_a_session_that_lies_elsewhere_writes_and_removes_nothing_unasked(
    tmp_path: Path,
) -> None:
    """Somebody's folder, opened where it is: what its history says our hand did was not done here."""
    project, home = tmp_path / "project", tmp_path / "home"
    for folder in (project, home):
        folder.mkdir()
    (home / "kept.txt").write_text("mine")
    session = Session.create(project, home=tmp_path / "theirs")
    await session.append(
        UserMessage(parts=text_parts("hello"), origin="typed"), Checkpoint(id=0)
    )
    assert session.path is not None
    contents = Contents(session.path.parent)
    evil, mine = contents.keep(b"ssh-ed25519 evil"), contents.keep(b"mine")
    images = (
        FileImage(path=str(home / "authorized_keys"), before=evil, after=None),
        FileImage(path=f"../{home.name}/other", before=evil, after=None),
        FileImage(path=str(home / "kept.txt"), before=None, after=mine),
    )
    await session.append(
        *(Checkpoint(id=at, files=(image,)) for at, image in enumerate(images, 1))
    )
    session.close()
    agent = Agent(Session.open(session.path), llm=PlayedLLM(), approvals="all")
    await back(agent, 0, files=True)
    assert [path.name for path in home.iterdir()] == ["kept.txt"]


async def test_taking_a_rewind_back_leaves_what_was_written_after_it(
    tmp_path: Path,
) -> None:
    agent, watch = await worked(tmp_path)
    await back(agent, before_prompt(agent, "first"), files=True)
    revert = agent.session.projection.markers[-1]
    agent.state.models.llm.script.extend([tool_reply(write("b.txt", "newer\n")), "ok"])  # type: ignore[attr-defined]
    await agent.prompt("another way")
    await do(agent, operations.UndoCompaction(target=revert.index))
    assert (tmp_path / "b.txt").read_text() == "newer\n" and (
        tmp_path / "a.txt"
    ).read_text() == "three\n"
    kept = KEPT.format(path="b.txt", reason=WRITTEN_AGAIN)
    assert watch.notices[-1] == f"{RESTORED.format(paths='a.txt')} {kept}"


async def test_a_file_that_cannot_be_written_is_told_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, watch = await worked(tmp_path)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("foldline.agent.tools.files.put_whole", refuse)
    await back(agent, before_prompt(agent, "second"), files=True)
    reason = "it could not be written: no space left on device"
    assert watch.notices[-1] == KEPT.format(path="a.txt", reason=reason)


async def test_a_turn_begins_once_the_tools_of_a_cancelled_one_have_written(
    tmp_path: Path,
) -> None:
    """Else two checkpoints could get the same id."""
    agent, _ = await worked(tmp_path)
    record, loop, holds = (
        recorder(agent.session),
        asyncio.get_running_loop(),
        asyncio.Event(),
    )

    def still_writing() -> None:
        with agent.state.tools.known_files.lock:
            loop.call_soon_threadsafe(holds.set)
            record(tmp_path / "b.txt", tmp_path / "b.txt", b"new\n", b"late\n")

    late = asyncio.create_task(asyncio.to_thread(still_writing))
    await holds.wait()
    await agent.prompt("third")
    await late
    ids = [entry.id for entry in agent.session.projection.checkpoints]
    assert len(ids) == len(set(ids))


async def test_what_changed_since_a_place_is_a_diff_of_each_file_or_says_why_there_is_none(
    tmp_path: Path,
) -> None:
    agent, _ = await worked(tmp_path)
    found = {each.path: each for each in await diffs_since(agent.state.tools)}
    assert found["b.txt"].diff == "--- /dev/null\n+++ b.txt\n@@ -0,0 +1 @@\n+new\n"
    assert "-one\n+three\n" in found["a.txt"].diff and (
        found["a.txt"].added,
        found["a.txt"].removed,
    ) == (
        1,
        1,
    )
    place = next(
        each
        for each in rewind_points(agent.session.projection)
        if each.prompt == "second"
    )
    assert [
        "-two\n+three\n" in each.diff
        for each in await diffs_since(agent.state.tools, place.index)
    ] == [True]
    (tmp_path / "b.txt").unlink()
    (tmp_path / "b.txt").mkdir()
    assert agent.session.path is not None
    for kept in (agent.session.path.parent / CONTENTS).iterdir():
        kept.unlink()
    assert [
        (each.path, each.diff, each.why)
        for each in await diffs_since(agent.state.tools)
    ] == [
        ("b.txt", "", NOT_COMPARED.format(reason=NOT_A_FILE)),
        ("a.txt", "", NOT_COMPARED.format(reason=NOT_SAVED)),
    ]


BY_COMMAND = {
    "formatted": ("sed -i 's/x=2/x = 2/' f.py", edit("f.py", "x = 2", "x = 3")),
    "removed and written again": ("rm f.py", write("f.py", "new\n")),
    "back at its first content": ("printf 'x=1\\n' > f.py", edit("f.py", "x=1", "x=9")),
    "replaced by a rename": (
        "printf 'x=7\\n' > g && mv g f.py",
        edit("f.py", "x=7", "x=8"),
    ),
}


@pytest.mark.parametrize("command, change", BY_COMMAND.values(), ids=BY_COMMAND)
async def test_a_rewind_passes_over_what_a_command_did_and_its_undo_gives_back_the_newest(
    tmp_path: Path, command: str, change: tuple[str, dict[str, Any]]
) -> None:
    file = tmp_path / "f.py"
    file.write_text("x=1\n")
    script = [
        tool_reply(edit("f.py", "x=1", "x=2")),
        "done",
        tool_reply(("bash", {"command": command})),
    ]
    if change[0] == "edit":
        script.append(tool_reply(("read", {"path": "f.py"})))
    agent, watch = agent_in(tmp_path, PlayedLLM(*script, tool_reply(change), "done"))
    await agent.prompt("one")
    await agent.prompt("two")
    newest = file.read_text()
    for _ in range(2):
        await back(agent, before_prompt(agent, "two"), files=True)
        assert file.read_text() == "x=2\n"
        await do(agent, operations.UndoCompaction())
        assert file.read_text() == newest
        assert watch.notices[-1] == RESTORED.format(paths="f.py")


async def test_what_a_command_did_before_a_prompt_is_there_again_after_a_rewind_to_it(
    tmp_path: Path,
) -> None:
    file = tmp_path / "f.py"
    file.write_text("x=1\n")
    script = [
        tool_reply(edit("f.py", "x=1", "x=2")),
        tool_reply(("bash", {"command": "echo '# formatted' >> f.py"})),
    ]
    script += [
        "done",
        tool_reply(("read", {"path": "f.py"})),
        tool_reply(edit("f.py", "x=2", "x=3")),
        "done",
    ]
    agent, watch = agent_in(tmp_path, PlayedLLM(*script))
    await agent.prompt("one")
    formatted = file.read_text()
    await agent.prompt("two")
    await back(agent, before_prompt(agent, "two"), files=True)
    assert file.read_text() == formatted == "x=2\n# formatted\n"
    await back(agent, before_prompt(agent, "one"), files=True)
    assert file.read_text() == formatted and CHANGED_BY_OTHERS in watch.notices[-1]
    await do(agent, operations.UndoCompaction())
    await do(agent, operations.UndoCompaction())
    assert file.read_text() == "x=3\n# formatted\n"


async def test_what_others_changed_is_recorded_after_a_disk_that_was_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object) -> int:
        raise OSError(28, "No space left on device")

    agent, _ = await worked(tmp_path)
    (tmp_path / "a.txt").write_text("mine\n")
    with monkeypatch.context() as full:
        full.setattr("foldline.agent.session.file_records.append_checkpoint", refused)
        with pytest.raises(OSError, match="No space"):
            await record_others_changes(agent.state.tools)
    await record_others_changes(agent.state.tools)
    _, newest = agent.session.projection.images[-1]
    assert newest.path == "a.txt" and newest.by_others
    await agent.aclose()


async def test_a_change_that_was_not_made_is_taken_back_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    agent, _ = await worked(tmp_path)
    agent.state.models.llm.script.extend(
        [tool_reply(edit("a.txt", "three", "four")), "ok"]
    )  # type: ignore[attr-defined]
    with monkeypatch.context() as full:
        full.setattr("foldline.agent.tools.files.put_whole", refuse)
        await agent.prompt("third")
    await back(agent, before_prompt(agent, "first"), files=True)
    assert (tmp_path / "a.txt").read_text() == "one\n"


async def test_a_change_that_a_crash_kept_from_being_made_is_no_one_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOLDLINE_HOME", str(tmp_path.parent / f"{tmp_path.name}-home"))
    agent, _ = await worked(tmp_path)
    assert agent.session.path is not None
    kept = Contents(agent.session.path.parent)
    never = FileImage(
        path="a.txt", before=kept.keep(b"three\n"), after=kept.keep(b"four\n")
    )
    await append_checkpoint(agent.session, [never])
    await agent.aclose()
    again = Agent(reload_session(agent), llm=PlayedLLM("ok"), approvals="all")
    first = before_prompt(again, "first")
    foreseen = await foresee(again.state, operations.Rewind(checkpoint=first))
    assert {change.path: change.kind for change in foreseen.files} == {
        "a.txt": "write",
        "b.txt": "remove",
    }
    await again.prompt("go on")
    await back(again, first, files=True)
    assert (tmp_path / "a.txt").read_text() == "one\n"
