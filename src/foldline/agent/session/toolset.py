"""The tools of an agent, those offered to the model, and the data that tools share.

The offered tools are part of the prefix of every request, which the provider caches. They change only between
two turns, or after the model has searched for tools.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from foldline.agent.extensions.catalogue import Catalogue
from foldline.agent.extensions.mcp import ToolServers
from foldline.agent.extensions.mcp.connection import START_SECONDS
from foldline.agent.extensions.mcp.servers import ServerTool
from foldline.agent.project.working_folder import WorkingFolder
from foldline.agent.tools import FileMemory, Jobs, Tool, ToolContext
from foldline.agent.tools.history import Mailbox
from foldline.history import Session
from foldline.llm import ToolSpec, brief, spec_tokens
from foldline.protocol import Entry, NoticeRecord, RequestRecord
from foldline.protocol.events import ServersAwaited, ToolOutput
from foldline.sequences import grouped
from foldline.text.numbers import some
from foldline.view.outline import MessageOutline, RequestOutline
from foldline.view.weight import Schemas

from .event_stream import EventStream
from .models import Models

SKILL_TOOL = "skill"
TASK_TOOL = "task"
SEARCH_TOOL = "tool_search"
PATIENCE = 5.0
"""Maximum time that the first turn waits for tool servers, in seconds, if there is a user."""
BY_SEARCH = " A search has found them. The next request is not in the provider's cache."
OTHER_TOOLS = "The tools have changed"
OTHER_ORDER = "The tools are in a different order"

FileStamps = dict[str, tuple[int, ...]]
"""Inode, size and times of files when they were last compared with our records, by path."""
_SMALL_WINDOW = 8_192
"""Windows with fewer tokens count as small.

In these windows, the schemas of all our tools would take up more than a seventh of the space.
"""
_DISPENSABLE = frozenset(
    {
        "jobs",
        "glob",
        "fetch",
        "todo",
        "history_search",
        "history_read",
        "ask_user",
        TASK_TOOL,
    }
)
"""Tools that are not offered in small windows. `bash` replaces most of them."""
_SERVER_SHARE = 0.1
"""Maximum fraction of the window for the schemas of server tools.

Above this fraction, the model has to search for tools. Every request includes the schemas, although most
tools are never called.
"""


@dataclass
class Toolset:
    """The tools of one agent."""

    session: Session
    events: EventStream
    models: Models
    folder: WorkingFolder
    is_interactive: bool = False
    """Whether there is a user, who should not wait long for tool servers."""
    all: Sequence[Tool] = ()
    """Our tools, and the server tools that are offered."""
    known_files: FileMemory = field(default_factory=FileMemory)
    file_stamps: FileStamps = field(default_factory=dict)
    jobs: Jobs = field(default_factory=Jobs)
    mailbox: Mailbox | None = None
    """The model's messages to its earlier self (D-Mail); None if the feature is off."""
    servers: ToolServers | None = None
    """MCP servers; None if there are none."""
    catalogue: Catalogue = field(default_factory=Catalogue)
    """Skills and commands found by the last search on disk."""
    reserved: Collection[str] = ()
    """Names of built-in slash commands."""
    skills_announced: object = None
    """The skills, and the newest change to the view, at the last check for unannounced skills."""
    offered: str | None = None
    """Digest of the tools offered last; None before the first turn."""
    searches: bool = False
    """Whether the model has to search for server tools.

    If so, there are too many to offer all of them.
    """
    discovered: set[str] = field(default_factory=set)
    """Names of server tools that a search found or that were called earlier."""
    after_results: list[Entry] = field(default_factory=list)
    """Entries to append after this step's tool results.

    They have to wait because results must directly follow their calls.
    """
    ends_with_plan: bool = False
    """Whether the turn ends with a plan.

    It does if there is no user to accept the plan.
    """
    _sizes: tuple[tuple[ToolSpec, ...], tuple[Schemas, ...]] = ((), ())
    """The tool specs whose sizes were measured last, and these sizes."""

    def __post_init__(self) -> None:
        self.projection = self.session.projection
        self.cwd = self.folder.path

    @property
    def spill_dir(self) -> Path:
        """Folder for the full outputs of tools whose results were shortened."""
        path = self.session.path
        base = path.parent if path else self.cwd / ".foldline"
        return base / "outputs"

    def named(self, name: str) -> Tool | None:
        return next((tool for tool in self.all if tool.spec.name == name), None)

    def context(self, call_id: str, max_tokens: int) -> ToolContext:
        """Return the context for running a call.

        Args:
            max_tokens: room for the call's result, in estimated tokens.
        """
        mask = self.models.mask
        emit = self.events.emit
        return ToolContext(
            cwd=self.cwd,
            call_id=call_id,
            output=lambda text: emit(ToolOutput(call_id=call_id, text=mask(text))),
            max_tokens=max_tokens,
            spill_dir=self.spill_dir,
            known_files=self.known_files,
            jobs=self.jobs,
            mask=mask,
            readable=tuple(
                skill.path.parent for skill in self.catalogue.skills.values()
            ),
        )

    # --- offered tools ---------------------------------------------------------------------------

    @property
    def specs(self) -> list[ToolSpec]:
        """The tools as they are offered to the model."""
        return self._offered(self.all)

    @property
    def can_recall(self) -> bool:
        """Whether the model can read the history."""
        return any(spec.name == "history_read" for spec in self.specs)

    def _offered(self, tools: Sequence[Tool]) -> list[ToolSpec]:
        """Return the specs to offer.

        A small window gets fewer tools. A model that cannot call tools gets an empty list.
        """
        if not self.models.llm.info.tools:
            return []
        hidden: set[str] = set()
        if not self.catalogue.skills:
            hidden.add(SKILL_TOOL)
        if not self._is_searching:
            hidden.add(SEARCH_TOOL)
        is_small = self.models.window < _SMALL_WINDOW
        if is_small:
            hidden |= _DISPENSABLE
        specs = [tool.spec for tool in tools if tool.spec.name not in hidden]
        return [brief(spec) for spec in specs] if is_small else specs

    @property
    def _has_too_many(self) -> bool:
        """Whether the tools of all servers would take up too much of the window."""
        if self.servers is None:
            return False
        weight = self.servers.weight * self.projection.meter.scale
        return weight > _SERVER_SHARE * self.models.window

    @property
    def _is_searching(self) -> bool:
        return self.searches or (self.offered is None and self._has_too_many)

    @property
    def _server_tools(self) -> Sequence[Tool]:
        """The offered server tools: all of them, or only those found by a search."""
        if self.servers is None:
            return []
        tools = self.servers.tools
        if not self._is_searching:
            return tools
        return [tool for tool in tools if tool.spec.name in self.discovered]

    @property
    def schemas(self) -> Sequence[Schemas]:
        """Sizes of the tool schemas in every request, by server.

        Before the first turn, this includes the tools that the servers will offer. Cached until the tools
        change.
        """
        tools = [*self.all]
        if self.offered is None:
            tools += self._server_tools
        specs = tuple(self._offered(tools))
        if specs != self._sizes[0]:
            self._sizes = (specs, _schema_sizes(tools, specs))
        return self._sizes[1]

    @property
    def tokens(self) -> int:
        """Size of the tool schemas that are sent, in tokens before calibration."""
        return sum(size.tokens for size in self.schemas)

    # --- changes ---------------------------------------------------------------------------------

    async def wait_for_servers(self) -> None:
        """Wait a limited time for tool servers to connect."""
        servers = self.servers
        if servers is None:
            return
        servers.start()
        if awaited := servers.awaited:
            self.events.emit(ServersAwaited(servers=awaited))
            await servers.settled(PATIENCE if self.is_interactive else START_SECONDS)

    async def take(self) -> None:
        """Offer the current tools from now on.

        A change is recorded in the history. If server tools take up too much of the window, the model has to
        search for them for the rest of the session.
        """
        await self.wait_for_servers()
        if not self.searches and self._has_too_many:
            self.searches = True
            for outline in self.session.entries.outlines:
                if isinstance(outline, MessageOutline) and outline.name:
                    self.discovered.add(outline.name)
        await self._offer()
        if self.servers is not None:
            self.servers.begin_turn()

    async def offer_found(self) -> None:
        """Offer the tools that a search in this step has found."""
        if not self.searches:
            return
        offered = {tool.spec.name for tool in self.all}
        if any(tool.spec.name not in offered for tool in self._server_tools):
            await self._offer(BY_SEARCH)

    async def _offer(self, remark: str = "") -> None:
        specs_before = self.specs
        if self.servers is not None:
            own_tools = [tool for tool in self.all if not isinstance(tool, ServerTool)]
            self.all = [*own_tools, *self._server_tools]
        specs = self.specs
        digest = tools_digest(specs)
        offered_before = self.offered or _last_offered(self.session)
        if offered_before is not None and offered_before != digest:
            change = OTHER_TOOLS
            if (
                self.offered and specs_before != specs
            ):  # otherwise, the window caused the change
                change = _difference(specs_before, specs)
            notice = NoticeRecord(text=f"{change}.{remark}", tools=digest)
            await self.session.append(notice)
        self.offered = digest


def tools_digest(specs: Sequence[ToolSpec]) -> str:
    """Return the SHA-256 of the offered tools.

    Each tool is hashed as one line of canonical JSON.
    """
    digest = hashlib.sha256()
    for spec in specs:
        fields = [spec.name, spec.description, spec.parameters]
        line = json.dumps(fields, sort_keys=True, ensure_ascii=False)
        digest.update(line.encode("utf-8", "surrogatepass"))
        digest.update(b"\n")
    return digest.hexdigest()


def _last_offered(session: Session) -> str | None:
    """Return the digest of the tools that were offered last, if it is known."""
    entries = session.entries
    for position in reversed(range(len(entries.outlines))):
        if isinstance(entries.outlines[position], RequestOutline):
            record = entries[position]
            return record.tools if isinstance(record, RequestRecord) else None
    return None


def _difference(before: Sequence[ToolSpec], after: Sequence[ToolSpec]) -> str:
    """Describe which tools were added, removed and changed, without a full stop."""
    old = {spec.name: spec for spec in before}
    new = {spec.name: spec for spec in after}
    changes = {
        "added": [name for name in new if name not in old],
        "removed": [name for name in old if name not in new],
        "changed": [name for name in new if name in old and old[name] != new[name]],
    }
    clauses = [f"{change}: {some(names)}" for change, names in changes.items() if names]
    return f"Tools {'; '.join(clauses)}" if clauses else OTHER_ORDER


def _schema_sizes(
    tools: Iterable[Tool], specs: Iterable[ToolSpec]
) -> tuple[Schemas, ...]:
    """Return the sizes of these specs, by server.

    The server name of our own tools is "".
    """
    servers = {
        tool.spec.name: tool.server.name
        for tool in tools
        if isinstance(tool, ServerTool)
    }
    by_name = {spec.name: spec for spec in specs}
    tokens = grouped(
        (servers.get(name, ""), spec_tokens(spec)) for name, spec in by_name.items()
    )
    return tuple(
        Schemas(server, len(sizes), sum(sizes)) for server, sizes in tokens.items()
    )
