"""The lines of a ledger: written, read back, and matched with the model's text."""

from hypothesis import given
from hypothesis import strategies as st

from foldline.memory.ledger_lines import (
    LedgerLine,
    ledger_items,
    ledger_lines,
    used_lines,
)
from foldline.protocol import AssistantMessage, TextPart
from support.history import call

BODY = """Names and lines of what is compacted.
[entry 6] orders/service.py: OrderReplayed insert_or_get
  def apply(order, *, limit: int) -> Order:
[entry 7] orders/deps.py
  return idempotency_key(header: str)
[entry 10]: lock_timeout"""
NAME = st.from_regex(r"[a-z]{3,8}_[a-z]{3,8}", fullmatch=True)
LINE = st.builds(
    lambda entry, place, text, is_text: LedgerLine(
        entry, place, f"return {text}(1)" if is_text else text, is_text
    ),
    st.integers(0, 99),
    st.sampled_from(["", "src/a.py", "make test"]),
    NAME,
    st.booleans(),
)


def assistant(text: str = "", **arguments: str) -> AssistantMessage:
    calls = [call("edit", **arguments)] if arguments else []
    return AssistantMessage(parts=(TextPart(text=text), *calls))


def test_each_ledger_line_is_read_with_its_entry_and_position() -> None:
    assert [(line.entry, line.place, line.text) for line in ledger_lines(BODY)] == [
        (6, "orders/service.py", "OrderReplayed insert_or_get"),
        (6, "orders/service.py", "def apply(order, *, limit: int) -> Order:"),
        (7, "orders/deps.py", "return idempotency_key(header: str)"),
        (10, "", "lock_timeout"),
    ]


def test_a_parsed_ledger_is_written_back_unchanged() -> None:
    assert "\n".join(ledger_items(ledger_lines(BODY))) == BODY.partition("\n")[2]


@given(st.lists(LINE, max_size=12, unique_by=lambda line: (line.id, line.place)))
def test_writing_and_reading_keeps_every_line(lines: list[LedgerLine]) -> None:
    again = ledger_lines("\n".join(ledger_items(lines)))

    def words(some: list[LedgerLine]) -> set[tuple[int, str, str]]:
        texts = {(line.entry, line.place, line.text) for line in some if line.is_text}
        return texts | {
            (line.entry, line.place, word)
            for line in some
            if not line.is_text
            for word in line.text.split()
        }

    assert words(again) == words(lines)


def test_a_definition_counts_as_used_if_its_name_occurs() -> None:
    lines = ledger_lines(
        "[entry 6] src/a.py\n  def compaction(items, *, limit):\n  def sort_items(items):\n  class Order:\n"
        "  return compaction(sort_items(items))"
    )
    for text, used in (
        ("We call `compaction` there.", {0}),
        ("return compaction(items, limit=3)", {0}),
        ("sort_items is slow", {1}),
        ("We compaction the order.", set()),
        ("Order(1)", {2}),
    ):
        assert used_lines(lines, [assistant(text)]) == {lines[at].id for at in used}, (
            text
        )


def test_a_line_counts_as_used_by_any_of_its_names_or_its_full_text() -> None:
    lines = ledger_lines(BODY)
    assert used_lines(lines, [assistant("We raise `OrderReplayed` here.")]) == {
        lines[0].id
    }
    assert used_lines(
        lines,
        [assistant(old="    def apply(order, *, limit: int) -> Order:\n        pass")],
    ) == {lines[1].id}
    assert used_lines(lines, [assistant("Nothing of it.")]) == frozenset()
