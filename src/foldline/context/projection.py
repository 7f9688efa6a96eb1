"""The projection: a pure replay of the history that gives the LLM view and the fate of every entry.

`Projection.append` is incremental: O(1) amortised for messages, proportional to the view for markers that
change it, linear from its target for an undo or a revert. It looks at outlines only, never at what an entry
says. Each marker that changes the view leaves a `Change` behind, with what it takes to go back to the
moment before it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from itertools import chain, takewhile

from foldline.protocol import (
    CLAUDE_CODE,
    NEW,
    Checkpoint,
    Clear,
    Edit,
    Entry,
    FileImage,
    ModelChange,
    Revert,
    Subagent,
    Title,
    Undo,
)

from .budget import NOTHING_SEEN, RequestSize, WindowProof
from .outline import (
    CompactionOutline,
    Entries,
    MemoryEntries,
    MessageOutline,
    OtherOutline,
    Outline,
    Reported,
    RequestOutline,
)
from .tally import FIXED, Tally
from .tokens import LEAST_GROWTH, Calibration, Scripts, fits_text
from .usage_reading import PLAIN, Anchor, CountingHabits, ExpectedInput, UsageReading, read_usage
from .view import ASIDE, LIVE, Fate, Fates, Key, ViewItem, item_of, keys_in
from .view_state import (
    Change,
    ViewMarker,
    ViewState,
    Weighed,
    annulled,
    built_on_refusal,
    carried_by,
    in_force,
    left_behind,
    newest_undoable,
    reached_by,
    undo_refusal,
    unmarked,
)

_ANCHORED, _UNCERTAIN, _UNKNOWN = 0.05, 0.15, 0.45
"""Shares by which an expected input may be off: beside a usage on record, with a ratio that was learnt, and
with none: 1.3 then stands for all between 0.7 and 1.9."""
REPLAYS_REASONING = frozenset({"strict-reasoning", "strict-thinking", "openrouter", "responses", "messages"})
"""The names of the dialects that send reasoning back: `llm.dialect`, and those of two APIs."""


class Projection(ViewState):
    """The view and the fates of a history, kept up to date by `append`. Readers change nothing."""

    def __init__(self, entries: Entries | None = None) -> None:
        """Takes in what `entries` holds already."""
        super().__init__(MemoryEntries() if entries is None else entries)
        self.calibration = Calibration()
        self.anchor: Anchor | None = None
        """The newest usage of a request on record."""
        self._grows_from: Anchor | None = None
        """The first usage of another agent since the view changed: what it counted beside the text is not
        known, and the same in those that follow."""
        self.all_compactions: list[CompactionOutline] = []
        """Every compaction ever made, undone ones included, in order."""
        self.newest_change: ViewMarker | Undo | None = None
        """The newest marker that changed the view, an undo included."""
        self.newest_request = -1
        """Index of the newest record of a request; -1 where there is none."""
        self._windows: dict[str, WindowProof] = {}
        self._refused = 0
        """Tokens of the newest request, where it was refused as too long, and nothing was given up since."""
        self._records: list[RequestSize] = []
        self._answers: list[RequestSize] = []  # as long as there is no record
        self.of_agent = False
        """Whether another agent sent the newest request on record."""
        self.title: str | None = None
        self.model: str | None = None
        self._changes: list[Change] = []
        self._markers: list[ViewMarker] = []
        self._undos: list[Undo] = []
        self._annulled: set[int] = set()
        """Indices of the markers and undos that are undone."""
        self._replayed: list[int] = []
        """Positions of the messages, checkpoints and markers that make up the view: those not undone."""
        self.images: list[tuple[int, FileImage]] = []
        """Every change of a file by our hand, with the index of the checkpoint that recorded it, in order."""
        self.subagents: list[Subagent] = []
        """Every subagent that was ever started, in order."""
        self.checkpoints: list[Checkpoint] = []
        """Every checkpoint ever made, in order, those in reverted parts included."""
        self._checkpoints: dict[int, int] = {}
        self._highest_checkpoint = -1
        self._caching: set[str] = set()
        self.replays_reasoning = False
        """Whether the newest request was rendered in a dialect that sends reasoning back."""
        self._habits: dict[str, CountingHabits] = {}
        """How the server of each model counts, as learnt from its reports."""
        self.follow()

    # --- reading -------------------------------------------------------------------------------

    def compactions(self) -> list[CompactionOutline]:
        """The compactions in force, oldest first: those neither undone nor reverted."""
        return [marker for marker in self._in_force if isinstance(marker, CompactionOutline)]

    @property
    def markers(self) -> Sequence[ViewMarker]:
        """The markers in force that change the view, oldest first: those neither undone nor reverted."""
        return self._in_force

    def edited_since(self, index: int) -> frozenset[int] | None:
        """The entries of edits since this entry, made or taken back; None where anything else changed the
        view."""
        newest_first = (reversed(self._markers), reversed(self._undos))
        since = (takewhile(lambda marker: marker.index > index, markers) for markers in newest_first)
        targets: set[int] = set()
        for marker in chain.from_iterable(since):
            meant = self._meant(marker)
            if not isinstance(meant, Edit):
                return None
            targets.add(meant.target)
        return frozenset(targets)

    def _meant(self, marker: ViewMarker | Undo) -> Outline | None:
        meant: Outline | None = marker
        while isinstance(meant, Undo):
            by_hand = meant.target >= meant.index  # in the file: such an undo means nothing
            meant = None if by_hand else self.outline(meant.target)
        return meant

    @property
    def sent(self) -> int:
        """Estimated tokens of the next request's messages, with reasoning where it is sent back, before
        calibration."""
        return self.tokens + (self.thinking if self.replays_reasoning else 0)

    def habits(self, model: str | None) -> CountingHabits:
        """How the server of this model counts the input of a request."""
        return self._habits.get(model or "", PLAIN)

    @property
    def counted(self) -> int:
        """What the server counts of `sent`: its template may forget reasoning."""
        return self.tokens + self._counted_thinking

    @property
    def _counted_thinking(self) -> int:
        reasoning = self.habits(self.model).reasoning
        if not self.replays_reasoning or reasoning == "none":
            return 0
        return self.thinking if reasoning == "all" else self.thinking - self.earlier_thinking

    def read_usage(
        self, model: str, estimated: int, reported: int, cached: int, *, apart: bool = False
    ) -> UsageReading:
        """What the usage of a request that was just answered means, before its answer is appended.

        Args:
            estimated: messages and tools as they were sent, before calibration.
            reported: its input tokens, cached ones included.
            cached: those of them that a cache had to do with.
            apart: see `ExpectedInput.cached_apart`.
        """
        expected = self._expected_input(model, estimated, None)
        return read_usage(reported, cached, replace(expected, cached_apart=apart), self.habits(model))

    def _expected_input(self, model: str, estimated: int, answer: ViewItem | None) -> ExpectedInput:
        """What a request should take whose answer, if it is in the view, is `answer`."""
        ratio = self.calibration.ratio(model)
        earlier = turn = 0
        if self.replays_reasoning:
            earlier = self.earlier_thinking
            turn = self.thinking - earlier - (0 if answer is None else answer.thinking)
        parts = ExpectedInput(
            whole=estimated * ratio,
            estimated=max(1.0, estimated * ratio),
            least=self.calibration.least(model, estimated),
            tools=max(0, estimated - self._sent_before(answer)) * ratio,
            earlier_reasoning=earlier * ratio,
            turn_reasoning=turn * ratio,
            uncertainty=_UNCERTAIN if model in self.calibration.ratios else _UNKNOWN,
            doubted=model in self.calibration.doubted,
        )
        if self.anchor is None:
            return parts
        growth = (self._counted_before(answer) - self.anchor.estimated) * ratio
        known = self.anchor.reported + growth
        whole = known + parts.left_out(self.habits(model))
        share = _ANCHORED + _UNCERTAIN * abs(growth) / max(1.0, known)
        return replace(parts, whole=whole, uncertainty=share, anchored=True)

    def scale_for(self, model: str | None) -> float:
        """What the view weighs as this model counts, for each estimated token."""
        counted = max(1, self.counted)
        return self.calibration.weigh(model, counted, self.scripts) / counted

    @property
    def scale(self) -> float:
        """What the view weighs for decisions, for each estimated token."""
        return self.scale_for(self.model)

    def weighed(self, tokens: float, scripts: Scripts) -> float:
        """What an estimate comes to for decisions, with the characters of `scripts` in it."""
        return self.calibration.weigh(self.model, tokens, scripts)

    def grown_to(self, tokens: float, scripts: Scripts) -> float:
        """What a view of this estimate weighs: the newest usage, and the estimate of what came since."""
        assert self.anchor is not None
        more = tokens - self.anchor.estimated
        if more < 0:  # forgotten reasoning; less is taken off than estimated, to err high
            return self.anchor.reported + more * self.calibration.ratio(self.model) * (1 - _UNCERTAIN)
        scripts = scripts.minus(self.anchor.scripts) if more else Scripts()
        return self.anchor.reported + self.weighed(more, scripts)

    @property
    def fixed(self) -> int:
        """Estimate of what no compaction may take, preamble, pins and skills, before calibration."""
        return self.tally.estimate(FIXED | {"pins", "skills"})

    @property
    def requests(self) -> Sequence[RequestSize]:
        """Every request, oldest first: those on record, or, for other agents, one per answer."""
        return self._records or self._answers

    @property
    def records_requests(self) -> bool:
        """Whether `requests` are on record."""
        return bool(self._records)

    @property
    def reports_view(self) -> bool:
        """Whether what was reported is the size of a view: another agent's reports count its tools, too."""
        return self.records_requests and not self.of_agent

    def window_proof(self, model: str | None) -> WindowProof:
        """What the history proves of a model's window."""
        return self._windows.get(model or "", NOTHING_SEEN)

    @property
    def prefix_cached(self) -> bool:
        """Whether the newest request carried this view to a provider that has served some from a cache."""
        return self.anchor is not None and self.has_cache(self.model or "")

    def has_cache(self, model: str) -> bool:
        """Whether a model has served anything from a cache."""
        return model in self._caching

    def checkpoint(self, checkpoint_id: int) -> int | None:
        """Index of the checkpoint entry with this id."""
        return self._checkpoints.get(checkpoint_id)

    def is_annulled(self, index: int) -> bool:
        """Whether this marker is undone."""
        return index in self._annulled

    def reached_by(self, revert: Revert) -> int | None:
        """Index of the entry that was the newest at the moment a rewind goes back to; None where it goes
        nowhere."""
        return reached_by(revert, self._checkpoints)

    @property
    def next_checkpoint_id(self) -> int:
        return self._highest_checkpoint + 1

    def undo_refusal(self, target: int) -> str | None:
        """Why the marker at `target` cannot be undone now; None where it can."""
        if not isinstance(self.outline(target), ViewMarker | Undo):
            return f"Entry {target} is no compaction, clear, edit, rewind or undo: nothing to take back."
        if target in self._annulled:
            return f"Entry {target} is already undone."
        if not self._may_bring_back(target):
            return built_on_refusal(target, self._in_force)
        undo = Undo(index=self.last_index + 1, target=target)
        return undo_refusal(undo, self._undos, self._markers, self._checkpoints)

    def _may_bring_back(self, target: int) -> bool:
        """Return whether undoing this entry can bring another marker back: an undo or a rewind can."""
        return isinstance(self.outline(target), Undo | Revert)

    @property
    def undoable(self) -> int | None:
        """Index of what an undo without a target takes back; None where there is nothing, or it cannot be."""
        newest = newest_undoable(self.markers)
        return newest.index if newest is not None and self.undo_refusal(newest.index) is None else None

    # --- taking in one more entry ---------------------------------------------------------------

    def append(self, entry: Entry) -> None:
        """Take in the next entry. Indices must increase."""
        self.entries.append(entry)
        self.follow()

    def follow(self) -> None:
        """Take in what `entries` got since the last time."""
        for position in range(len(self._indices), len(self.entries)):
            outline = self.entries.outlines[position]
            self._indices.append(outline.index)
            self._apply(outline, position)

    def _apply(self, entry: Outline, position: int) -> None:
        match entry:
            case MessageOutline():
                self._add_message(entry, position)
            case RequestOutline():
                self._learn(entry, position)
            case CompactionOutline() | Clear() | Edit() | Revert():
                self._add_marker(entry, position)
            case Undo():
                self._undo(entry)
            case Checkpoint():
                self.checkpoints.append(entry)
                self._checkpoints.setdefault(entry.id, entry.index)
                self._highest_checkpoint = max(self._highest_checkpoint, entry.id)
                self.images.extend((entry.index, image) for image in entry.files)
                self._replayed.append(position)
                self._mark(entry)
            case ModelChange():
                self.model = entry.model
                self._forget_usage()
            case Title():
                self.title = entry.title
            case OtherOutline():
                self._refused = 0
            case Subagent():
                self.subagents.append(entry)

    def _add_marker(self, marker: ViewMarker, position: int) -> None:
        if isinstance(marker, CompactionOutline):
            self.all_compactions.append(marker)
        self._markers.append(marker)
        self.newest_change = marker
        if isinstance(marker, Revert) and marker.moment is not None:
            self._count_undos(position)
        if marker.index not in self._annulled:
            self._replayed.append(position)
            self._change(marker, position)

    def _add_message(self, message: MessageOutline, position: int) -> None:
        self._note_group(message)
        self._refused = 0 if message.type == "user" else self._refused
        if message.type == "assistant" and not self._records:
            self._answers.append(self._of_agent(message.index, position, message.model, message.usage))
        elif message.type == "assistant":
            self.model = message.model or self.model
        self._replayed.append(position)
        self._place(message)

    def _of_agent(self, index: int, position: int, model: str | None, usage: Reported | None) -> RequestSize:
        """A request of another agent, by its record, or by its answer where there are no records. Of ours,
        the record follows the answer.

        What another agent sent beside the messages, such as its tools, will not be sent by us: its usage is
        no measure of the view. By how much it grew while the view did is one of the text: of reasoning, too,
        which such agents send back. Without it, 1.69 was learnt where 1.05 was right.
        """
        if model not in (None, self.model):
            self._grows_from = None
            self.model = model
        reported = 0 if usage is None else usage.input
        estimated = round(self.calibration.weigh(self.model, self.counted, self.scripts))
        size = RequestSize(index, position, estimated, reported)
        if usage is None or not reported:
            return size
        self._went_through(self.model or "", reported, usage.output, usage.window)
        if usage.cached:
            self._caching.add(self.model or "")
        whole = self.tokens + self.thinking
        if self._grows_from is None:
            self._grows_from = Anchor(reported, whole, self.scripts)
        grown = whole - self._grows_from.estimated
        if grown >= LEAST_GROWTH:
            more = reported - self._grows_from.reported
            self.calibration = self.calibration.learn(self.model or "", grown, more)
        return size

    def _learn(self, request: RequestOutline, position: int) -> None:
        self.newest_request = request.index
        self._answers.clear()
        self.of_agent = request.dialect == CLAUDE_CODE
        if self.of_agent:
            self._records.append(self._of_agent(request.index, position, request.model, request.usage))
            return
        answer = self._answer_before(request)
        estimated = request.estimated or self._sent_before(answer)
        expected = self._expected_input(request.model, estimated, answer)
        habits, ratio = self.habits(request.model), self.calibration.ratio(request.model)
        counted = round(estimated - expected.left_out(habits) / ratio)
        before = self._counted_before(answer)
        scripts = self.scripts.minus(Scripts() if answer is None else answer.scripts)
        calibrated = round(self.calibration.weigh(request.model, counted, scripts))
        reported = 0 if request.usage is None else request.usage.input
        self._records.append(RequestSize(request.index, position, calibrated, reported))
        self.replays_reasoning = request.dialect in REPLAYS_REASONING
        self.model = self.model or request.model
        if request.refused:
            is_anchored = self.anchor is not None
            size = round(self.grown_to(before, scripts) if is_anchored else self.weighed(counted, scripts))
            self._refused = min(self._refused or size, size)
            self._windows[request.model] = self.window_proof(request.model).bounded(request.window)
        elif request.window:
            self._windows[request.model] = self.window_proof(request.model).announced(request.window)
        if request.usage is None:
            return
        self._went_through(request.model, reported or calibrated, request.usage.output, request.window)
        if request.usage.cached:
            self._caching.add(request.model)
        reading = read_usage(reported, 0, expected, habits)  # cached tokens were set right before it was kept
        if reading.outcome == "cut":
            self.calibration = self.calibration.doubt(request.model, doubted=True)
            self.anchor = None  # earlier reports may have been cut a little, too
        elif reading.outcome == "trusted":
            self.calibration = self.calibration.doubt(request.model, doubted=False)
            self._habits[request.model] = reading.habits
            self._anchor_at(request.usage, answer)
            if request.estimated:
                counted = round(estimated - expected.left_out(reading.habits) / ratio)
                self.calibration = self.calibration.learn(request.model, counted, reported)

    def _went_through(self, model: str, request: int, answer: int, stated: int) -> None:
        self._windows[model] = self.window_proof(model).answered(request, answer, stated, self._refused)
        self._refused = 0

    def _answer_before(self, request: RequestOutline) -> ViewItem | None:
        before = self._indices[-2] if len(self._indices) > 1 else NEW
        newest = self.view[-1] if self.view else None
        is_answer = newest is not None and newest.index == before and newest.outline.type == "assistant"
        return newest if is_answer else None

    def _anchor_at(self, usage: Reported, answer: ViewItem | None) -> None:
        before = self._counted_before(answer)
        said = usage.output - (0 if self._counts_reasoning else usage.reasoning)
        if answer is not None and fits_text(said, self.counted - before):
            self.anchor = Anchor(usage.input + said, self.counted, self.scripts)
        else:
            scripts = self.scripts.minus(Scripts() if answer is None else answer.scripts)
            self.anchor = Anchor(usage.input, before, scripts)

    @property
    def _counts_reasoning(self) -> bool:
        """Whether the reasoning of a newest answer is sent back, and counted."""
        return self.replays_reasoning and self.habits(self.model).reasoning != "none"

    def _counted_before(self, answer: ViewItem | None) -> int:
        return self.counted - _weight(answer, with_reasoning=self._counts_reasoning)

    def _sent_before(self, answer: ViewItem | None) -> int:
        return self.sent - _weight(answer, with_reasoning=self.replays_reasoning)

    def _forget_usage(self) -> None:
        self.anchor = self._grows_from = None

    def foreseen(self, *entries: Entry) -> "Projection":
        """Another projection with these entries more, for previews; they get the next indices. Costs a
        shallow copy."""
        other = self.forked()
        for entry in entries:
            index = other.last_index + 1 if entry.index == NEW else entry.index
            other.append(entry.model_copy(update={"index": index}))
        return other

    def compacted(self, marker: int, spans: Sequence[tuple[int, int]]) -> int:
        """How many messages of these spans the compaction at this index found in the view; of one that is
        undone or unknown, how many could have been there."""
        if (change := self._change_by(marker)) is not None:
            return change.messages_within(spans)
        outlines = self.entries.outlines
        return sum(
            isinstance(outlines[at], MessageOutline) and self.fate(outlines[at].index).kind != "aside"
            for first, last in spans
            for at in range(self.count_up_to(first - 1), self.count_up_to(last))
        )

    def estimated_around(self, marker: int) -> tuple[int, int]:
        """What the view weighed before and after this marker, as estimated then, in tokens; 0 where it is
        undone or unknown."""
        change = self._change_by(marker)
        return (0, 0) if change is None else change.sizes

    def _change_by(self, marker: int) -> Change | None:
        return next((each for each in reversed(self._changes) if each.marker.index == marker), None)

    def _estimate(self) -> int:
        return round(self.weighed(self.counted, self.scripts))

    def forked(self) -> "Projection":
        """Another projection of the same entries, which goes its own way from here."""
        other = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, list | dict | set | Fates):
                setattr(other, name, copy(value))
        other.entries = copy(self.entries)
        other._tally, other._tallied = Tally(), 0
        return other

    # --- markers ---------------------------------------------------------------------------------

    def _change(self, marker: ViewMarker, position: int) -> None:
        view, pins = self.view, frozenset(self._pins)
        weighed, size = Weighed(self.tokens, self.thinking, self.scripts), self._estimate()
        self.view = list(view)
        self._fates.record()
        match marker:
            case CompactionOutline():
                self._compact(marker)
            case Clear():
                self._clear(marker)
            case Edit():
                self._edit(marker)
            case Revert():
                self._revert(marker)
        before = self._fates.recorded()
        sizes = (size, self._estimate())
        left = left_behind(marker, view, self.view)
        self._changes.append(Change(marker, position, pins, before, weighed, sizes, left))
        self._in_force.append(marker)
        if isinstance(marker, Revert):
            self._in_force = in_force(self._markers, self._annulled, self._checkpoints)
        self._forget_usage()

    def _revert(self, revert: Revert) -> None:
        back_to = reached_by(revert, self._checkpoints)
        if back_to is None:
            return
        reverted = self._reverted_since(back_to)
        view = self._go_back_to(back_to)
        fate = Fate("reverted", revert.index)
        for key in reverted:
            self._fates.put(key, fate)
        self._set_view(view)
        kept = None if revert.kept is None else self._verbatim(revert.kept)
        if (
            kept is not None
            and kept.outline.type == "user"
            and kept.outline.says
            and all(item.index != kept.index for item in view)
        ):
            self._fates.put(kept.key, LIVE)
            self._insert(len(self.view), kept)
        carried = carried_by(revert)
        if carried is not None:
            self._fates.put(carried.key, LIVE)
            self._insert(len(self.view), item_of(carried))

    def _reverted_since(self, index: int) -> list[Key]:
        start = bisect_right(self._indices, index)
        fates = ((index, self._fates.get(index)) for index in self._indices[start:])
        return [(index, 0) for index, fate in fates if fate is not None and fate.kind != "reverted"]

    def _go_back_to(self, index: int) -> list[ViewItem]:
        """The view as it was when entry `index` was the newest; fates and pins are put back on the way."""
        since = list(takewhile(lambda change: change.marker.index > index, reversed(self._changes)))
        for change in since:
            for key, fate in keys_in(change.fates):
                if key[0] <= index:
                    self._fates.put(key, fate or ASIDE)
        # Made of the oldest alone: of each, many rewinds would take the cube of their number.
        view = since[-1].view_before(self.entries) if since else self.view
        self._pins = set(since[-1].pins if since else self._pins)
        return [self._marked_by(item, index) for item in view if item.index <= index]

    def _marked_by(self, item: ViewItem, index: int) -> ViewItem:
        checkpoint = item.checkpoint
        if checkpoint is None or self._checkpoints.get(checkpoint, index) <= index:
            return item
        return unmarked(item)

    # --- undo ------------------------------------------------------------------------------------

    def _undo(self, undo: Undo) -> None:
        """As if the target had never been appended: back to before it, then everything since once more."""
        if undo.target >= undo.index or self.undo_refusal(undo.target) is not None:
            return
        self._undos.append(undo)
        self.newest_change = undo
        if self._may_bring_back(undo.target):
            self._count_undos(len(self._indices))
            self._in_force = in_force(self._markers, self._annulled, self._checkpoints)
        else:
            self._annul(undo.target)
        self._forget_usage()

    def _annul(self, target: int) -> None:
        """Undo one marker whose undo brings no other marker back: the rest of the history stays as it is."""
        self._annulled.add(target)
        position = bisect_left(self._indices, target)
        del self._replayed[bisect_left(self._replayed, position)]
        self._replay_since(target, len(self._indices), (target,))
        number = bisect_left(self._in_force, target, key=lambda marker: marker.index)
        if number < len(self._in_force) and self._in_force[number].index == target:
            del self._in_force[number]

    def _count_undos(self, stop: int) -> None:
        """Find which markers are undone now, and replay the history from the first one that changed.

        `stop` is the position up to which the history is replayed.
        """
        was_annulled, self._annulled = self._annulled, annulled(self._undos, self._markers)
        if self._annulled == was_annulled:
            return
        since = min(self._annulled ^ was_annulled)
        start = bisect_left(self._indices, since)
        self._replayed[bisect_left(self._replayed, start) :] = [
            position
            for position in range(start, stop)
            if isinstance(self.entries.outlines[position], MessageOutline | Checkpoint | ViewMarker)
            and self._indices[position] not in self._annulled
        ]
        self._replay_since(since, stop, [index for index in self._annulled if index >= since])

    def _replay_since(self, since: int, stop: int, undone: Iterable[int]) -> None:
        """Restore the view before the entry with index `since`, then replay all that follows and counts.

        `undone` are the indices of the markers from there on that do not count.
        """
        start = bisect_left(self._indices, since)
        change = None
        while self._changes and self._changes[-1].position >= start:
            change = self._changes.pop()
            self._fates.put_back(change.fates)
        if change is not None:
            self._set_view(change.view_before(self.entries), change.weighed)
            self._pins = set(change.pins)
        # Messages since then are in the restored view only as far as they came before the next change.
        for position in range(len(self.view) - 1, -1, -1):
            item = self.view[position]
            if item.outline.index >= since:
                self._remove(position)
            elif item.checkpoint is not None:
                self._replace(position, self._marked_by(item, since))
        for index in undone:
            self._fates.forget(index)
        self._replay(start, stop)

    def _replay(self, start: int, stop: int) -> None:
        """Put what counts between two positions into the view again."""
        for position in self._replayed[bisect_left(self._replayed, start) :]:
            if position >= stop:
                break
            entry = self.entries.outlines[position]
            match entry:
                case MessageOutline():
                    self._place(entry)
                case Checkpoint():
                    self._mark(entry)
                case CompactionOutline() | Clear() | Edit() | Revert():
                    self._change(entry, position)


def _weight(answer: ViewItem | None, *, with_reasoning: bool) -> int:
    if answer is None:
        return 0
    return answer.tokens + (answer.thinking if with_reasoning else 0)


def project(entries: Iterable[Entry]) -> Projection:
    """Replay a whole history. Linear in its length."""
    return Projection(MemoryEntries(entries))
