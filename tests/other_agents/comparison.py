"""The last request of an agent, with its reply, against Foldline's view of the session: item by item."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from .wires import WIRES, Item, Json
from .wires.openai_chat import items as chat_items
from .wires.shapes import call_item
from .workspace import RunError

FOLDLINE = Path(sys.executable).with_name("foldline")
SHOWN = 110
ALIKE = 12
"""Characters by which two forms of one text are told."""


@dataclass(frozen=True)
class Difference:
    """An item of the request without its equal in the view, the other way round, or a text in both."""

    sent: Item | None
    viewed: tuple[Item, ...] = ()
    """For a text: the items of the view that it contains. Otherwise an item of the same role, if any."""
    more: str | None = None
    """What a text that contains those items has besides them; empty if they are only in another order."""

    @property
    def moved(self) -> bool:
        """Both sides have the same, in different places."""
        return self.sent is not None and self.more == ""

    def __str__(self) -> str:
        lines = [_line("sent", self.sent)] if self.sent else []
        lines += [_line("view", item) for item in self.viewed]
        if self.more is not None:
            lines.append(
                f"  more {self.more[:SHOWN]!r}" if self.more else "  in another order"
            )
        return "\n".join(lines)


def _line(mark: str, item: Item) -> str:
    return f"  {mark} {item.role:9} {len(item.text):6}  {item.text[:SHOWN]!r}"


@dataclass(frozen=True)
class Compared:
    """What one comparison found."""

    sent: int
    equal: int
    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()
    """What `foldline view` said on stderr."""

    def __str__(self) -> str:
        return f"{self.equal} of {self.sent}"


def last_request(requests: Sequence[Json]) -> Json:
    """The newest request for work that begins as the first one does: other system prompts are of helpers.

    Raises:
        RunError: there is none.
    """
    work = [request for request in requests if request.get("purpose") == "work"]
    for request in reversed(work):
        if _beginning(request) == _beginning(work[0]):
            return request
    raise RunError("it sent no request for work")


def _beginning(request: Json) -> str:
    items = WIRES[request["wire"]].items(request["body"])
    return items[0].text[:40] if items else ""


def items_sent(request: Json) -> list[Item]:
    """The items of a request and of its reply."""
    items = WIRES[request["wire"]].items(request["body"])
    reply = request["reply"]
    if reply["text"]:
        items.append(Item("assistant", reply["text"]))
    items += [call_item(call["name"], call["arguments"]) for call in reply["calls"]]
    return items


def viewed(session: str, home: Path) -> tuple[list[Item], tuple[str, ...]]:
    """The items of the view of a session, and what the command said on stderr.

    Raises:
        RunError: Foldline cannot read it.
    """
    elsewhere = str(
        home / "reader"
    )  # what lies in a data folder of Foldline's is taken for its own session
    said, notes = foldline(home, "view", session, "--json", FOLDLINE_HOME=elsewhere)
    return list(map(_unmarked, chat_items(json.loads(said)))), tuple(
        notes.strip().splitlines()
    )


def foldline(
    home: Path, *arguments: str, folder: Path | None = None, **variables: str
) -> tuple[str, str]:
    """Run Foldline as the user of this home folder: what it wrote on stdout and on stderr.

    Raises:
        RunError: it failed.
    """
    kept = {
        "HOME": str(home),
        "PATH": os.environ.get("PATH", ""),
        "TERM": "dumb",
        "FOLDLINE_HOME": str(home / "foldline"),
    }
    ran = subprocess.run(
        [str(FOLDLINE), *arguments],
        cwd=folder,
        env={**kept, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        raise RunError(f"foldline {arguments[0]}: {ran.stderr.strip()[-300:]}")
    return ran.stdout, ran.stderr


def _unmarked(item: Item) -> Item:
    """The item without the marks that Foldline puts around a program's text among the user's."""
    return Item(
        item.role,
        item.text.replace("<system-note>\n", "").replace("\n</system-note>", ""),
    )


def compare(
    sent: Sequence[Item], view: Sequence[Item], notes: tuple[str, ...] = ()
) -> Compared:
    """Match the items in order.

    White space does not count. A text from outside may be the system's on one side and the user's on the
    other: each API has its own roles for what a program wrote. Texts that one side has as one item and the
    other as several neighbours are equal.
    """
    matcher = SequenceMatcher(
        None, list(map(key, sent)), list(map(key, view)), autojunk=False
    )
    equal = 0
    differences: list[Difference] = []
    for tag, i, j, k, m in matcher.get_opcodes():
        if tag == "equal":
            equal += j - i
            continue
        left, right = _without_joined(list(sent[i:j]), list(view[k:m]))
        equal += (j - i) - len(left)
        differences += _differences(left, right)
    return Compared(len(sent), equal, tuple(_with_moved(differences)), notes)


def held(items: Sequence[Item], within: Sequence[Item]) -> int:
    """How many of the items have their text within that of others, in one of them or in neighbours."""
    text = "".join(key(item)[1] for item in within)
    return sum(key(item)[1] in text for item in items)


def key(item: Item) -> tuple[str, str]:
    """What two items are compared by."""
    role = "input" if item.role in ("system", "user") else item.role
    return role, "".join(item.text.split())


def _without_joined(
    sent: list[Item], view: list[Item]
) -> tuple[list[Item], list[Item]]:
    """The rest of two runs, without the texts that are equal once neighbours of one side are joined."""
    for item in tuple(sent):
        if (found := _neighbours(item, view)) is not None:
            del view[found]
            sent.remove(item)
    for item in tuple(view):
        if (found := _neighbours(item, sent)) is not None:
            del sent[found]
            view.remove(item)
    return sent, view


def _neighbours(item: Item, others: Sequence[Item]) -> slice | None:
    """Where neighbours begin and end whose joined text is that of the item."""
    role, text = key(item)
    for start in range(len(others)):
        joined = ""
        for end in range(start, len(others)):
            other_role, other_text = key(others[end])
            joined += other_text
            if other_role != role or not text.startswith(joined):
                break
            if joined == text:
                return slice(start, end + 1)
    return None


def _differences(sent: Sequence[Item], view: Sequence[Item]) -> Iterator[Difference]:
    """Differing items as pairs: a text with those that it contains, others by role in order."""
    rest = list(view)
    unmatched: list[Item] = []
    for item in sent:
        inside = [each for each in rest if _is_within(each, item)]
        if not inside:
            unmatched.append(item)
            continue
        more = item.text
        for each in inside:
            more = more.replace(each.text.strip(), "", 1)
            rest.remove(each)
        yield Difference(item, tuple(inside), more.strip())
    for item in unmatched:
        other = next((each for each in rest if _is_like(each, item)), None)
        if other is not None:
            rest.remove(other)
        yield Difference(item, (other,) if other else ())
    for item in rest:
        yield Difference(None, (item,))


def _is_like(item: Item, other: Item) -> bool:
    """The items may be two forms of one: their roles are the same, and texts from outside begin alike."""
    role, text = key(item)
    other_role, other_text = key(other)
    return role == other_role and (
        role != "input" or text[:ALIKE] == other_text[:ALIKE]
    )


def _is_within(item: Item, other: Item) -> bool:
    role, text = key(item)
    other_role, other_text = key(other)
    return role == other_role == "input" and bool(text) and text in other_text


def _with_moved(differences: Sequence[Difference]) -> Iterator[Difference]:
    """The differences; an item that both sides have in different places is one difference."""
    missing = Counter(
        key(each.sent) for each in differences if each.sent and not each.viewed
    )
    extra = Counter(key(each.viewed[0]) for each in differences if each.sent is None)
    moved = missing & extra
    for each in differences:
        if each.sent and not each.viewed and moved[key(each.sent)]:
            yield Difference(each.sent, (each.sent,), "")
        elif each.sent is not None or not moved[key(each.viewed[0])]:
            yield each
