"""Does the instrument measure? Answerers of known worth sit the exam, without a model: one that reads all
it is shown, one that says nothing, one that always refuses, one that gives old values.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Literal, assert_never

from foldline.evaluation.judge.answers import (
    EXACT,
    FALSE_REFUSALS,
    REFUSAL,
    STALE,
    Absent,
    Ground,
    Place,
    Probe,
    Text,
    leaks,
    normal,
)
from foldline.evaluation.judge.exam import CEILING, FLOOR, Exam, Point, Sheet, exam_of
from foldline.evaluation.judge.material import everything
from foldline.evaluation.judge.questions import QUOTAS
from foldline.evaluation.judge.sitting import CRITERIA, HIGHEST, JUDGED, Judgement, Record, Reply
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    FileTouch,
    SystemMessage,
    ToolCallPart,
    ToolDetails,
    ToolResultMessage,
    UserMessage,
    text_parts,
)

Answerer = Callable[[Sheet], Callable[[Probe], str]]
"""Shown a view, somebody who answers probes from it."""
NOTHING = "nothing"
"""The arm of an empty view."""


def self_test() -> list[str]:
    """What is wrong with the instrument: sentences, empty where it is in order."""
    history = trial_session()
    newest = history[-3]
    views = {"all": history[: newest.index], NOTHING: ()}
    paper = exam_of([Point("self-test", newest.index, history, views)], window=1_000_000)
    asked = {probe.kind for sheet in paper.sheets for probe in sheet.probes}
    missing = [f"No probe was written of the kind {kind}." for kind in QUOTAS if kind not in asked]
    return missing + faults(paper)


def faults(paper: Exam) -> list[str]:
    """The same for an exam on real sessions, before anybody is paid for it."""
    found = [
        f"A question gives its answer away: {probe.question}"
        for sheet in paper.sheets
        for probe in sheet.probes
        if isinstance(probe.truth, Text | Place) and leaks(probe.question, probe.truth)
    ]
    reader = sat(paper, reader_of)
    best = {
        **dict.fromkeys(EXACT, 1.0),
        **dict.fromkeys(JUDGED.values(), float(HIGHEST)),
        FALSE_REFUSALS: 0.0,
    }
    found += _expect(reader, "a reader of everything", CEILING, best)
    empty = {name: 0.0 for name in EXACT if name != "abstain"}
    if NOTHING in paper.arms:
        found += _expect(reader, "a reader of nothing", NOTHING, empty)
    mute = sat(paper, lambda _: lambda _: "")
    found += _expect(mute, "an answerer without words", CEILING, dict.fromkeys(EXACT, 0.0))
    refuser = sat(paper, lambda _: lambda _: REFUSAL)
    refused = {**empty, "abstain": 1.0, FALSE_REFUSALS: 1.0}
    found += _expect(refuser, "an answerer who refuses", FLOOR, refused)
    dated = sat(paper, lambda _: _old_value)
    found += _expect(dated, "an answerer of old values", CEILING, {STALE: 1.0, "superseded": 0.0})
    return found


def _expect(result: Judgement, who: str, arm: str, scores: dict[str, float]) -> Iterator[str]:
    for row in result.rows:
        wanted = scores.get(row.dimension) if row.arm == arm else None
        if wanted is not None and (row.score is None or abs(row.score - wanted) > 0.01):
            yield f"{row.dimension} of {who} should be {wanted:g} and is {row.score}."


# -- sitting an exam without a model ----------------------------------------------------------------


def sat(paper: Exam, answerer: Answerer) -> Judgement:
    """The result of an answerer, graded by how much of the record its answer quotes."""
    record = Record(paper, answerer="self-test", judge="self-test")
    for number, sheet in enumerate(paper.sheets):
        answer = answerer(sheet)
        for at, probe in enumerate(sheet.probes):
            record.replies.append(Reply(number, at, answer(probe)))
    for number in record.judged():
        reply = record.replies[number]
        truth = record.probe(reply).truth
        assert isinstance(truth, Ground)
        share = sum(quote in reply.text for quote in truth.quotes) / len(truth.quotes)
        record.graded[number] = dict.fromkeys(CRITERIA, HIGHEST * share)
    return Judgement(record)


def reader_of(sheet: Sheet) -> Callable[[Probe], str]:
    """Gives the right answer where the view holds it, else refuses."""
    text = "\n".join(map(everything, sheet.view))
    narrow = normal(text)

    def read(probe: Probe) -> str:
        match probe.truth:
            case Text(wanted):
                return wanted if normal(wanted) in narrow else REFUSAL
            case Place(path, least):
                return _as_written(path, text, least) or REFUSAL
            case Ground(quotes):
                raw = CEILING in sheet.arms  # only there a judge's record may hold what was done afterwards
                seen = [quote for quote in quotes if raw or (quote.partition(": ")[2] or quote) in text]
                return "\n".join(seen) or REFUSAL
            case Absent(name):
                return name if name in text else REFUSAL
            case _:
                assert_never(probe.truth)

    return read


def _as_written(path: str, text: str, least: int = 1) -> str:
    """The longest end of a path that stands in a text, with so many names at least."""
    names = path.split("/")
    ends = ("/".join(names[start:]) for start in range(len(names) - least + 1))
    return next((end for end in ends if end and end in text), "")


def _old_value(probe: Probe) -> str:
    return probe.truth.stale[0] if isinstance(probe.truth, Text) and probe.truth.stale else REFUSAL


# -- a session to try it on -------------------------------------------------------------------------


def trial_session() -> tuple[BaseMessage, ...]:
    """A session in which everything that is asked for occurs."""
    return tuple(
        message.model_copy(update={"index": nth}) for nth, message in enumerate(_messages(), start=1)
    )


def _messages() -> Iterator[BaseMessage]:
    yield SystemMessage(parts=text_parts("You are a coding agent."))
    yield UserMessage(
        parts=text_parts(
            "Give the upload client a retry. You must never change the public signature of the client."
        )
    )
    yield from _step("read", {"path": "shop/net/upload_client.py"}, "def send_upload(): ...", "read")
    yield from _step("read", {"path": "shop/net/backoff_policy.py"}, "def next_delay(): ...", "read")
    yield AssistantMessage(
        parts=text_parts(
            "I put the wait into `exponential_backoff` instead of the caller, because two callers need it. "
            "The server drops a connection after 4500 ms without a byte."
        )
    )
    yield from _edit(
        "shop/net/upload_client.py", "    pass", "    return exponential_backoff(attempt_number)"
    )
    yield from _edit("shop/settings/network.toml", "request_timeout = 30", "request_timeout = 45")
    yield from _step("bash", {"command": "pytest tests/net"}, "2 failed, 29 passed in 1.20s", None)
    yield UserMessage(parts=text_parts("Now make the timeout of the upload client a little longer, please."))
    yield from _edit("shop/settings/network.toml", "request_timeout = 45", "request_timeout = 75")
    yield from _step("bash", {"command": "pytest tests/net"}, "0 failed, 31 passed in 1.10s", None)
    yield from _step("read", {"path": "docs/guide/changelog_notes.md"}, "# Changes", "read")
    yield UserMessage(parts=text_parts("Thank you. Go on with the notes."))
    yield from _step("read", {"path": "docs/guide/upload_notes.md"}, "# Upload", "read")


def _edit(path: str, old: str, new: str) -> Iterator[BaseMessage]:
    arguments = {"path": path, "old": old, "new": new}
    yield from _step("edit", arguments, f"Edited {path}.", "modified")


def _step(
    tool: str, arguments: dict[str, str], output: str, action: Literal["read", "modified"] | None
) -> Iterator[BaseMessage]:
    text = json.dumps(arguments)
    call = ToolCallPart(call_id=hashlib.sha256(text.encode()).hexdigest()[:12], name=tool, arguments=text)
    touched = (FileTouch(path=arguments["path"], action=action),) if action else ()
    yield AssistantMessage(parts=(call,))
    yield ToolResultMessage(
        call_id=call.call_id, name=tool, parts=text_parts(output), details=ToolDetails(files=touched)
    )
