"""The ledger of a session: its lines, and the choice of those to show."""

from foldline.memory.ledger import Ledger, keys_in
from foldline.memory.ledger_lines import ledger_lines
from foldline.protocol import BaseMessage
from foldline.view.tokens import estimate_tokens
from support.history import History, call, history

SOURCE = "import os\n\n\ndef compaction_items(items, *, most_kept):\n    return sorted(items)[:most_kept]\n"


def ledger_of(built: History) -> Ledger:
    made = Ledger()
    for entry in built.entries:
        assert isinstance(entry, BaseMessage)
        made.add(entry)
    return made


def read_twice() -> History:
    return (
        history()
        .user("Mend compaction_items")
        .assistant(calls=[call("read", path="src/compaction.py")])
        .result(SOURCE)
        .assistant(calls=[call("grep", pattern="never_again")])
        .result("src/other.py:12: never_again = rarely_seen(3)")
        .assistant(
            "compaction_items in src/compaction.py is wrong",
            calls=[call("read", path="src/compaction.py")],
        )
        .result(SOURCE)
    )


def test_each_item_is_listed_under_the_newest_entry_that_showed_it() -> None:
    groups = ledger_of(read_twice()).choose(1_000, frozenset())
    [shown] = [
        group
        for group in groups
        if any("compaction_items" in line for line in group.lines)
    ]
    assert shown.entry == 6
    assert shown.place == "src/compaction.py"
    assert "def compaction_items(items, *, most_kept):" in shown.lines
    assert shown.text.startswith("[entry 6] src/compaction.py: ")


def test_items_used_again_come_before_items_only_seen() -> None:
    made = ledger_of(read_twice())
    used, seen = (
        made.items["identifier", name] for name in ("compaction_items", "rarely_seen")
    )
    assert made.likelihood(used) > 4 * made.likelihood(seen)


def test_the_ledger_repeats_no_line() -> None:
    built = read_twice()
    said = keys_in([built.entries[2]])  # type: ignore[list-item]
    chosen = ledger_of(built).choose(1_000, said)
    assert all("compaction_items" not in group.text for group in chosen)
    assert all("most_kept" not in line for group in chosen for line in group.lines)
    assert any("never_again" in group.names for group in chosen)


def test_the_ledger_fits_its_budget() -> None:
    built = history().user("x")
    for at in range(40):
        built.assistant(calls=[call("read", path=f"src/module_{at}.py")]).result(
            "\n".join(f"def function_{at}_{n}(some_argument_{n}):" for n in range(40))
        )
    for budget in (50, 400, 3_000):
        text = "\n".join(
            group.text for group in ledger_of(built).choose(budget, frozenset())
        )
        assert estimate_tokens(text) <= budget


def read_definitions(files: int, definitions: int) -> History:
    """Build reads of files that consist of definitions."""
    built = history().user("x")
    for at in range(files):
        lines = (
            f"def function_{at}_{n}(some_argument_{n}: int) -> None: ..."
            for n in range(definitions)
        )
        built.assistant(calls=[call("read", path=f"src/module_{at}.pyi")]).result(
            "\n".join(lines)
        )
    return built


def test_definitions_get_a_part_of_the_ledger_and_the_rest_is_counted() -> None:
    groups = ledger_of(read_definitions(10, 40)).choose(8_000, frozenset())
    text = "\n".join(group.text for group in groups)
    assert estimate_tokens(text) <= 8_000
    shown = [line for line in text.splitlines() if "  def " in line]
    assert 20 <= len(shown) <= 80
    counted = {group.entry: group.left_out for group in groups}
    assert sum(counted.values()) + len(shown) == 400
    assert all(
        f"… and {more} more definitions" in text for more in counted.values() if more
    )
    assert [
        line for line in ledger_lines(text) if "more definitions" in line.text
    ] == []


def test_a_small_number_of_omitted_definitions_is_not_mentioned() -> None:
    assert all(
        not group.left_out
        for group in ledger_of(read_definitions(2, 8)).choose(8_000, frozenset())
    )


def test_a_changed_line_replaces_the_old_one() -> None:
    built = read_twice().assistant(
        calls=[
            call(
                "edit",
                path="src/compaction.py",
                old="    return sorted(items)[:most_kept]",
                new="    return heapq.nsmallest(most_kept, items)",
            )
        ]
    )
    made = ledger_of(built)
    old, new = (
        made.likelihood(made.items["line", line])
        for line in (
            "return sorted(items)[:most_kept]",
            "return heapq.nsmallest(most_kept, items)",
        )
    )
    assert old < new


def test_a_custom_score_selects_other_lines() -> None:
    made = Ledger(lambda seen, _place, _now: 1.0 if seen.text == "rarely_seen" else 0.0)
    for entry in read_twice().entries:
        made.add(entry)  # type: ignore[arg-type]
    [group] = made.choose(100, frozenset())
    assert group.names == ["rarely_seen"]


def test_memory_is_bounded_in_an_endless_session() -> None:
    made = Ledger()
    built = history().user("x")
    for at in range(30):
        text = " ".join(f"name_{at}_{n}" for n in range(1_000))
        built.assistant(calls=[call("bash", command="ls")]).result(text)
    for entry in built.entries:
        made.add(entry)  # type: ignore[arg-type]
    assert len(made.items) <= 9_000
    assert ("identifier", "name_29_999") in made.items
