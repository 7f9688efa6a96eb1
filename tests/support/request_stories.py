"""Histories whose requests are recorded as the agent records them.

They can be rewound to each request, and verified.
"""

from datetime import UTC, datetime, timedelta
from typing import Self

from foldline.past.proof import digest_of
from foldline.protocol import (
    Compaction,
    Entry,
    Kept,
    RequestRecord,
    ToolCallPart,
    ToolResultMessage,
    Usage,
)
from foldline.view.calls import paired
from support.history import call
from support.stories import SERVICE, SUMMARY, Story

START = datetime(2026, 6, 11, 14, 2, tzinfo=UTC)
MODEL = "kimi-k2"


class RequestStory(Story):
    """A history builder that records requests; entries are ten seconds apart."""

    def add(self, entry: Entry) -> Self:
        return super().add(
            entry.model_copy(update={"at": START + timedelta(seconds=10 * self._next)})
        )

    def ask(
        self,
        answer: str,
        *calls: ToolCallPart,
        reported: int = 0,
        error: str | None = None,
    ) -> Self:
        """Append an answer together with the record of its request."""
        projection = self.projection()
        messages = paired(item.message for item in projection.view)
        record = RequestRecord(
            digest=digest_of(messages),
            model=MODEL,
            after=projection.last_index,
            view_items=len(messages),
            estimated=projection.tokens,
            usage=Usage(input=reported, output=20) if reported else None,
            error=error,
        )
        if error is None:
            self.assistant(answer, calls=calls, model=MODEL, usage=record.usage)
        return self.add(record)


def compacted_story() -> RequestStory:
    """Return a history with two compactions, an edit and a failed request.

    One item is clipped and one is hidden.
    """
    story = (
        RequestStory()
        .system("Foldline system prompt")
        .user("The retry still makes two orders. Find out why.")
    )
    for number in range(7):
        story.ask(
            "look",
            call("grep", pattern=f"idempotency_key {number}"),
            reported=900 + 260 * number,
        )
        story.answer("hits\n" * 90, brief="14 matches")
    story.ask("Both retries pass.", reported=2_800).user("Yes, do that.")
    first_kept = story.last
    story.ask(
        "show the SQL",
        call("bash", command="alembic upgrade head --sql"),
        reported=2_900,
    )
    story.answer("".join(f"sql {line}\n" for line in range(300)), brief="exit 0")
    story.ask("run all tests", call("bash", command="pytest -q"), reported=4_100)
    story.answer("31 passed\n" * 40, brief="31 passed").ask("Done.", reported=4_300)
    story.compaction(first_kept, SUMMARY, first=1, before=4_300, after=2_600)
    first = story.last
    story.user("Now the same for cancel").ask(
        "read it", call("read", path=SERVICE), reported=2_700
    )
    story.answer("code\n" * 200, brief="200 lines")
    story.ask("", error="429 too many requests").ask("reuse it", reported=3_300).user(
        "Then the docs"
    )
    sql, tests, _ = (
        e.index
        for e in story.entries
        if isinstance(e, ToolResultMessage) and e.name != "grep"
    )
    story.add(
        Compaction(
            first_kept_index=first_kept,
            head=(Kept(ref=first),),
            replaced=(
                Kept(
                    ref=sql,
                    content="".join(f"sql {line}\n" for line in range(20)),
                    fate="clipped",
                ),
                Kept(
                    ref=tests, content="[hidden: pytest -q, 31 passed]", fate="hidden"
                ),
            ),
            strategy="ToolResultHidingCompaction",
            reason="manual",
            tokens_before=3_400,
            tokens_after=2_000,
        )
    )
    return story.ask("docs are done", reported=2_100).user("Thank you")
