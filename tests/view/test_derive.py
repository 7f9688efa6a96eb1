"""The entry of a compaction, derived from the views before and after it."""

from foldline.protocol import Compaction, SystemMessage, Written, text_parts
from foldline.view.cut import find_cut
from foldline.view.derive import derive, spans
from support.history import call, history


def test_the_example_in_the_package_docstring_is_correct() -> None:
    built = (
        history()
        .system("s")
        .user("look")
        .assistant(calls=[call("read")])
        .result("x " * 2_000)
    )
    built = built.assistant("It is long.").user("And now?").assistant("Still long.")
    projection = built.projection()
    before = [item.message for item in projection.view]
    cut = find_cut(projection.view, 9)
    assert cut is not None and [item.index for item in cut.compacted] == [1, 2, 3, 4]

    summary = SystemMessage(origin="summary", parts=text_parts("A long file."))
    entry = derive(before, [before[0], summary, *before[5:]])
    written = Written(message=summary, covers=((1, 4),))
    assert entry == Compaction(head=(written,), first_kept_index=5)

    after = built.add(entry).projection()
    assert [item.message.text for item in after.view] == [
        "s",
        "A long file.",
        "And now?",
        "Still long.",
    ]
    kinds = [after.fate(index).kind for index in range(7)]
    assert kinds == ["live", *["summarised"] * 4, "live", "live"]
    assert [item.message for item in built.undo(7).projection().view] == before


def test_spans_are_the_fewest_ranges_that_exclude_all_other_entries() -> None:
    assert spans([9, 1, 2, 4], [7]) == ((1, 4), (9, 9))
