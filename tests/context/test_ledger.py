"""What the ledger knows of a session, and what it chooses to keep in sight."""

from foldline.context.ledger import Ledger, ledger_lines, said_in
from foldline.context.tokens import estimate_tokens
from foldline.protocol import BaseMessage
from support.history import History, call, history

SOURCE = "import os\n\n\ndef fold_items(items, *, most_kept):\n    return sorted(items)[:most_kept]\n"


def ledger_of(built: History) -> Ledger:
    made = Ledger()
    for entry in built.entries:
        assert isinstance(entry, BaseMessage)
        made.add(entry)
    return made


def read_twice() -> History:
    return (
        history()
        .user("Mend fold_items")
        .assistant(calls=[call("read", path="src/fold.py")])
        .result(SOURCE)
        .assistant(calls=[call("grep", pattern="never_again")])
        .result("src/other.py:12: never_again = rarely_seen(3)")
        .assistant("fold_items in src/fold.py is wrong", calls=[call("read", path="src/fold.py")])
        .result(SOURCE)
    )


def test_each_thing_stands_by_the_newest_entry_that_showed_it() -> None:
    groups = ledger_of(read_twice()).choose(1_000, frozenset())
    [shown] = [group for group in groups if any("fold_items" in line for line in group.lines)]
    assert shown.entry == 6
    assert shown.place == "src/fold.py"
    assert "def fold_items(items, *, most_kept):" in shown.lines
    assert shown.text.startswith("[entry 6] src/fold.py: ")


def test_what_was_used_again_comes_before_what_was_only_seen() -> None:
    made = ledger_of(read_twice())
    used, seen = (made.seen["identifier", name] for name in ("fold_items", "rarely_seen"))
    assert made.likelihood(used) > 4 * made.likelihood(seen)


def test_nothing_is_said_twice() -> None:
    built = read_twice()
    said = said_in([built.entries[2]])  # type: ignore[list-item]
    chosen = ledger_of(built).choose(1_000, said)
    assert all("fold_items" not in group.text for group in chosen)
    assert all("most_kept" not in line for group in chosen for line in group.lines)
    assert any("never_again" in group.names for group in chosen)


def test_the_budget_holds() -> None:
    built = history().user("x")
    for at in range(40):
        built.assistant(calls=[call("read", path=f"src/module_{at}.py")]).result(
            "\n".join(f"def function_{at}_{n}(some_argument_{n}):" for n in range(40))
        )
    for budget in (50, 400, 3_000):
        text = "\n".join(group.text for group in ledger_of(built).choose(budget, frozenset()))
        assert estimate_tokens(text) <= budget


def stubs_read(files: int, definitions: int) -> History:
    """Reads of files that consist of definitions."""
    built = history().user("x")
    for at in range(files):
        lines = (f"def function_{at}_{n}(some_argument_{n}: int) -> None: ..." for n in range(definitions))
        built.assistant(calls=[call("read", path=f"src/module_{at}.pyi")]).result("\n".join(lines))
    return built


def test_definitions_take_a_part_of_the_ledger_and_the_others_are_counted() -> None:
    groups = ledger_of(stubs_read(10, 40)).choose(8_000, frozenset())
    text = "\n".join(group.text for group in groups)
    assert estimate_tokens(text) <= 8_000
    shown = [line for line in text.splitlines() if "  def " in line]
    assert 20 <= len(shown) <= 80
    counted = {group.entry: group.more for group in groups}
    assert sum(counted.values()) + len(shown) == 400
    assert all(f"… and {more} more definitions" in text for more in counted.values() if more)
    assert [line for line in ledger_lines(text) if "more definitions" in line.text] == []


def test_a_few_definitions_are_not_counted() -> None:
    assert all(not group.more for group in ledger_of(stubs_read(2, 8)).choose(8_000, frozenset()))


def test_a_line_that_was_replaced_gives_way_to_the_new_one() -> None:
    built = read_twice().assistant(
        calls=[
            call(
                "edit",
                path="src/fold.py",
                old="    return sorted(items)[:most_kept]",
                new="    return heapq.nsmallest(most_kept, items)",
            )
        ]
    )
    made = ledger_of(built)
    old, new = (
        made.likelihood(made.seen["line", line])
        for line in ("return sorted(items)[:most_kept]", "return heapq.nsmallest(most_kept, items)")
    )
    assert old < new


def test_another_score_chooses_by_its_own_lights() -> None:
    made = Ledger(lambda seen, _place, _now: 1.0 if seen.text == "rarely_seen" else 0.0)
    for entry in read_twice().entries:
        made.add(entry)  # type: ignore[arg-type]
    [group] = made.choose(100, frozenset())
    assert group.names == ["rarely_seen"]


def test_an_endless_session_takes_no_endless_memory() -> None:
    made = Ledger()
    built = history().user("x")
    for at in range(30):
        text = " ".join(f"name_{at}_{n}" for n in range(1_000))
        built.assistant(calls=[call("bash", command="ls")]).result(text)
    for entry in built.entries:
        made.add(entry)  # type: ignore[arg-type]
    assert len(made.seen) <= 9_000
    assert ("identifier", "name_29_999") in made.seen
