"""The tools of past requests: others than those of the request before only where the history says so."""

from collections.abc import Iterator, Sequence

from foldline.protocol import Entry, NoticeRecord, RequestRecord


def silent_changes(entries: Sequence[Entry]) -> Iterator[str]:
    """A sentence for each request whose tools are others than those of the one before, and nothing says it.

    Records of older versions do not tell their tools: nothing is known of them.
    """
    offered: str | None = None
    said: set[str] = set()
    for entry in entries:
        if isinstance(entry, NoticeRecord) and entry.tools is not None:
            said.add(entry.tools)
        elif isinstance(entry, RequestRecord):
            if None not in (offered, entry.tools) and offered != entry.tools and entry.tools not in said:
                yield f"the request of entry {entry.index} offered other tools than the one before, unsaid"
            offered = entry.tools
            said.clear()
