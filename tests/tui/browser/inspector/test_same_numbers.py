"""A compaction, a request and a session have the same numbers wherever they are shown or printed.

Of another agent's session these are two: what the agent reported, and what its items come to.
"""

import re
from collections.abc import Sequence

import pytest

from foldline.cli.sources import read_source
from foldline.frontend.figures import compaction_rows
from foldline.history.meta import describe
from foldline.history.session import Session
from foldline.past.moments import at_compaction
from foldline.protocol import Entry
from foldline.text import numbers
from foldline.tui.app.inspector_app import InspectorApp
from foldline.tui.browser.inspector.follow import FollowingInspector
from foldline.tui.transcript.rows import compaction_block
from foldline.view.projection import project
from foldline.view.weight import view_size
from support.command_line import CommandLine, cli
from support.recordings import SHARED, needs_recorded
from support.stories import screen_rows

pytestmark = pytest.mark.slow

__all__ = ["cli"]

COMPACTED = (
    "pi/pimono-v1-2comp.jsonl",
    "claude-code/entire-2auto-opus45.jsonl",
    "codex/mise-2comp-gpt56.jsonl",
)
SESSIONS = (*COMPACTED, "kimi/ctx-a/context.jsonl")


async def inspected(
    source: str, *commands: str, size: tuple[int, int] = (200, 60)
) -> str:
    """The words on the Inspector's screen after these commands."""
    found = read_source(source, None)
    app = InspectorApp(
        FollowingInspector(Session.from_entries(found.header, found.entries), "it")
    )
    async with app.run_test(size=size) as pilot:
        for command in ("", *commands):
            if command:
                app.inspector.panels.action_inspect(command)
            await app.workers.wait_for_complete()
            await pilot.pause()
        return "\n".join(screen_rows(app))


def tokens_of(entries: Sequence[Entry]) -> str:
    """The size of the items of a view, in words."""
    size = view_size(project(entries))
    return numbers.tokens(size.tokens, estimated=size.estimated)


@needs_recorded
@pytest.mark.parametrize("name", COMPACTED)
async def test_a_compaction_has_one_size_and_one_count_of_entries(
    cli: CommandLine, name: str
) -> None:
    source = str(SHARED / name)
    found = read_source(source, None)
    now = found.project()
    done = now.entry(now.compactions()[-1].index)
    heading = next(
        line
        for line in cli("audit", source).out.splitlines()
        if line.startswith(f"{done.index} ")
    )
    match = re.search(r"\S+ → \S+ tokens, (\d+) entries compacted", heading)
    assert match is not None
    sizes, count = match[0].partition(" tokens")[0], match[1]
    after = sizes.split(" → ")[1]

    line = compaction_block(done, now, opened=False).text()
    assert f"{sizes} tokens · " in line and f" · {count} entries compacted" in line
    assert compaction_rows(now)[-1].sizes == sizes
    assert sizes in cli("history", source).out

    screen = await inspected(source, "before-compaction")
    header, *panels = screen.splitlines()
    moment = at_compaction(now, done.index)
    items = tokens_of(found.entries[: moment.length])
    agent = "" if after.startswith("~") else f" · its agent {after} "
    assert f"as of compaction {done.index} · here {items}{agent}" in header, (
        "the header"
    )
    assert re.search(rf"\d+ items? {re.escape(items)} ", panels[0]), (
        "the frame of the LLM view"
    )
    assert f"{done.index} compaction · {done.reason} · {sizes}" in screen, (
        "the rule in History"
    )
    assert f"{count} entries compacted" in screen, "the words of the timeline"
    assert f", {count} entries" in screen, "the row of the summary"

    compared = await inspected(source, "before-compaction", "diff")
    before = tokens_of(found.entries[: moment.length - 1])
    assert f" {before} → {items} " in compared.splitlines()[1], (
        "the frame of the comparison"
    )
    assert re.search(rf"− {count}( and 1 summary)? gone", compared)


@needs_recorded
@pytest.mark.parametrize("name", SESSIONS)
async def test_a_request_has_one_size(cli: CommandLine, name: str) -> None:
    source = str(SHARED / name)
    found = read_source(source, None)
    now = found.project()
    number = len(now.meter.requests)
    asked = now.meter.requests[-1]
    items, agent = (
        tokens_of(found.entries[: asked.position]),
        numbers.tokens(asked.reported),
    )
    heading, below, *_ = cli("view", source, "--request", str(number)).out.splitlines()
    assert f" items · {items} of " in heading
    assert (f" {agent} of " in below) == (asked.reported > 0)
    printed = cli("view", source, "--request", str(number), "--json").json
    assert (numbers.tokens(printed["tokens"], estimated=printed["estimated"])) == items
    assert printed["agent_tokens"] == asked.reported
    header, panels, *_ = (await inspected(source, "older-request")).splitlines()
    sizes = f"here {items} · its agent {agent}" if asked.reported else items
    assert f"as of request {number} · {sizes} " in header
    assert f" items {items} " in panels
    frame = (await inspected(source, "older-request", "diff")).splitlines()[1]
    assert (
        f"request {number - 1} → request {number}" in frame and f"→ {items} " in frame
    )
    narrow = await inspected(source, "timeline", "older-request", size=(80, 24))
    size = numbers.tokens(asked.tokens, estimated=asked.is_estimated)
    assert f"request {number} {size}" in narrow, "the frame of the timeline"


@needs_recorded
@pytest.mark.parametrize("name", SESSIONS)
async def test_a_session_has_one_number_of_entries_and_one_size_now(
    cli: CommandLine, name: str
) -> None:
    source = str(SHARED / name)
    found = read_source(source, None)
    entries, items = len(found.entries), len(found.project().view)
    told = cli("stats", source, "--json").json
    assert (told["entries"], told["view_items"]) == (entries, items)
    assert describe(found.header, found.entries).entries == entries
    heading = cli("history", source).out.splitlines()[0]
    assert f" · {entries} entries · " in heading
    size = heading.rsplit(", ", 1)[1].removesuffix(" tokens")
    stats = cli("stats", source).out
    assert (
        stats.startswith(f"{entries:,} entries, ")
        and f"{size} tokens in {items:,} items" in stats
    )
    assert f"{items} items · {size} of " in cli("view", source).out.splitlines()[0]
    header, panels, *_ = (await inspected(source)).splitlines()
    assert (
        f" {entries:,} entries, " in panels
        and f" {items} items {size} " in panels
        and f" {size} " in header
    )


@needs_recorded
@pytest.mark.parametrize("name", COMPACTED)
def test_what_compactions_took_out_is_the_sum_of_their_sizes(
    cli: CommandLine, name: str
) -> None:
    source = str(SHARED / name)
    compactions = cli("audit", source, "--json").json["compactions"]
    away = sum(
        compaction["tokens_before"] - compaction["tokens_after"]
        for compaction in compactions
    )
    assert cli("stats", source, "--json").json["taken_out"] == away > 0
