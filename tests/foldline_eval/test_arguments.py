"""Arguments of recorded calls that could be written from the view alone."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.protocol import AssistantMessage, BaseMessage, UserMessage, text_parts
from foldline_eval.recall import Needs, RecallFigures, arguments, recall
from foldline_eval.record import Ratio
from support.evaluation import messages_of, run_with_view
from support.history import History, call, history
from support.pi_messages import pi_messages
from support.recordings import SHARED, needs_recorded

PATCH = """*** Begin Patch
*** Update File: src/a.py
@@
-    first_line_of_the_first_hunk()
+    another_line()
@@
     second_hunk_begins_with_this()
-    and_loses_this_line_of_it()
*** End Patch"""


def read_then(name: str, **given: object) -> History:
    """Read a file of two long lines, then make a call that uses them."""
    built = history().system("s").user("Mend it.")
    text = "1: def total_of_orders(orders):\n2:     return sum(order.price for order in orders)"
    built.step("read", text, path="src/orders.py")
    return built.assistant("", calls=[call(name, **given)])


def from_view(
    built: History, view: Callable[[Sequence[BaseMessage]], Sequence[BaseMessage]]
) -> RecallFigures:
    return recall(run_with_view(built, view), Needs(messages_of(built)))


def saying(text: str) -> Callable[[Sequence[BaseMessage]], Sequence[BaseMessage]]:
    return lambda _: [UserMessage(index=1, parts=text_parts(text))]


OLD = "def total_of_orders(orders):\n    return sum(order.price for order in orders)\n"


@pytest.mark.parametrize(
    ("name", "given", "kind", "enough", "too_little"),
    [
        ("read", {"path": "src/orders.py"}, "path", "/home/ann/src/orders.py", "orders.txt"),
        ("edit", {"old": OLD, "new": "x"}, "old text", OLD, OLD.splitlines()[0]),
        ("bash", {"command": "pytest src/orders.py -k total_of_orders"}, "command",
         "total_of_orders in src/orders.py", "src/orders.py"),
        ("grep", {"pattern": "def total_of_orders"}, "pattern", "total_of_orders", "total_of_order"),
    ],
)  # fmt: skip
def test_an_argument_can_be_written_if_its_sources_are_in_the_view(
    name: str, given: dict[str, object], kind: str, enough: str, too_little: str
) -> None:
    built = read_then(name, **given)
    assert from_view(built, saying(enough)).arguments == {kind: Ratio(1, 1)}
    assert from_view(built, saying(too_little)).arguments == {kind: Ratio(0, 1)}


def test_new_text_in_a_call_is_not_required_of_any_view() -> None:
    built = read_then("bash", command="cp src/orders.py src/brand_new_name.py")
    assert from_view(built, saying("src/orders.py")).writable == Ratio(1, 1)
    assert from_view(
        read_then("bash", command="git status"), saying("")
    ).writable == Ratio(0, 0)


def test_each_hunk_of_a_patch_and_each_file_is_one_argument() -> None:
    message = AssistantMessage(parts=(call("apply_patch", input=PATCH),))
    assert [(kind, text.strip().splitlines()) for kind, text in arguments(message)] == [
        ("old text", ["first_line_of_the_first_hunk()"]),
        (
            "old text",
            ["second_hunk_begins_with_this()", "    and_loses_this_line_of_it()"],
        ),
        ("path", ["src/a.py"]),
    ]


def test_a_patch_passed_to_a_shell_is_an_edit_not_a_command() -> None:
    message = AssistantMessage(parts=(call("shell", command=["apply_patch", PATCH]),))
    assert {kind for kind, _ in arguments(message)} == {"old text", "path"}


def test_each_replacement_in_a_list_is_an_argument() -> None:
    edits = [
        {"old_string": "one", "new_string": "two"},
        {"old_string": "three", "new_string": "four"},
    ]
    found = list(
        arguments(
            AssistantMessage(parts=(call("edit", file_path="a.py", edits=edits),))
        )
    )
    assert found[0] == ("path", "a.py")
    assert sorted(text for kind, text in found if kind == "old text") == [
        "one",
        "three",
    ]


@needs_recorded
@settings(max_examples=3, deadline=None)
@given(st.integers(2, 9))
def test_a_part_of_the_history_writes_no_more_arguments_than_the_whole(
    every: int,
) -> None:
    """Also for recorded sessions: true by construction, like recall."""
    built = history()
    built.entries += pi_messages(SHARED / "pi" / "prsui-v3-a.jsonl")
    whole = from_view(built, lambda view: view)
    part = from_view(
        built, lambda view: [message for message in view if message.index % every]
    )
    assert whole.writable.value == 1.0
    assert whole.arguments.keys() == part.arguments.keys()
    assert all(
        part.arguments[kind].kept <= share.kept
        for kind, share in whole.arguments.items()
    )
