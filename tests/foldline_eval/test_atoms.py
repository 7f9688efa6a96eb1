"""Atoms: parts of a message that can be found verbatim, and those an answer uses."""

import pytest

from foldline.protocol import AssistantMessage, BaseMessage
from foldline_eval.recall import (
    Atom,
    AtomKind,
    atoms,
    atoms_used,
    forms_of,
    forms_sought,
)
from support.evaluation import messages_of
from support.history import call, history


def only(message: BaseMessage, kind: AtomKind) -> list[str]:
    return [atom.text for atom in atoms(message) if atom.kind == kind]


def answer(text: str = "", name: str = "edit", **arguments: object) -> AssistantMessage:
    [message] = messages_of(
        history().assistant(text, calls=[call(name, **arguments)] if arguments else ())
    )
    assert isinstance(message, AssistantMessage)
    return message


def result(text: str) -> BaseMessage:
    return messages_of(history().step("read", text, path="x"))[1]


def user(text: str) -> BaseMessage:
    return messages_of(history().user(text))[0]


def holds(text: str, needed_atom: Atom) -> bool:
    """Return whether a view with this text has the needed atom."""
    return not forms_of(atoms(result(text))).isdisjoint(forms_sought(needed_atom))


# -- atoms -----------------------------------------------------------------------------------------


def test_a_message_has_atoms_of_every_kind() -> None:
    text = (
        "Never touch src/pay/ledger.py, see https://docs.example.com/ledger and commit 3f2a91c.\n"
        "max_retries = 3\nLockError: could not obtain lock\n- [ ] back-fill June"
    )
    assert {atom.kind for atom in atoms(user(text))} == {
        "path", "identifier", "url", "hash", "line",
    }  # fmt: skip


def test_no_atom_is_repeated() -> None:
    found = atoms(user("src/a.py and src/a.py\nsrc/a.py and src/a.py"))
    assert len(found) == len(set(found))


def test_arguments_of_calls_are_read_as_values() -> None:
    assert only(answer(command="cat src/shop/api.py\nls"), "path") == [
        "src/shop/api.py"
    ]


def test_thinking_has_no_atoms() -> None:
    [message] = messages_of(
        history().assistant("Done.", thinking="Perhaps src/secret.py is to blame.")
    )
    assert atoms(message) == ()


def test_short_lines_are_not_atoms() -> None:
    assert only(
        result("    return None\n    raise ValueError(f'no such order: {number}')"),
        "line",
    ) == ["raise ValueError(f'no such order: {number}')"]


@pytest.mark.parametrize(
    "text", ["", "\x00" * 50, "a/" * 20_000, "+" * 5_000, "é\u2028" * 300]
)
def test_unusual_text_raises_no_error(text: str) -> None:
    assert len(forms_of(atoms(result(text)))) < 60_000


# -- atoms an answer used ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key", ["old", "oldText", "old_string", "old_str", "oldString"]
)
def test_an_edit_needs_the_lines_it_replaces(key: str) -> None:
    old = "def total_of_all(orders, vat):\n    x = 1\n"
    found = atoms_used(
        answer(
            **{
                "path": "src/a.py",
                key: old,
                "newText": "def total_with_the_vat(orders):\n",
            }
        )
    )
    assert [atom.text for atom in found if atom.kind == "line"] == [
        "def total_of_all(orders, vat):"
    ]


def test_each_of_several_edits_needs_its_lines() -> None:
    edits = [
        {"oldText": f"value_{n} = compute_value({n})", "newText": ""} for n in range(3)
    ]
    assert (
        sum(
            atom.kind == "line" for atom in atoms_used(answer(path="a.py", edits=edits))
        )
        == 3
    )


def test_a_patch_needs_its_removed_and_context_lines() -> None:
    patch = (
        "*** Begin Patch\n*** Update File: src/a.py\n@@\n"
        " def total(orders: list[Order]) -> int:\n-    return sum(order.total for order in orders)\n"
        "+    return sum(order.total_with_vat for order in orders)\n*** End Patch"
    )
    assert [
        atom.text for atom in atoms_used(answer(input=patch)) if atom.kind == "line"
    ] == [
        "def total(orders: list[Order]) -> int:",
        "return sum(order.total for order in orders)",
    ]


def test_written_text_needs_no_lines() -> None:
    found = atoms_used(
        answer(name="write", path="a.py", content="a brand new line of some length")
    )
    assert {atom.kind for atom in found} == {"path"}


def test_an_answers_text_needs_the_atoms_it_names() -> None:
    found = atoms_used(answer("`OrderReplayed` is raised in src/a.py since 3f2a91c."))
    assert set(found) == {
        Atom("identifier", "OrderReplayed"),
        Atom("path", "src/a.py"),
        Atom("hash", "3f2a91c"),
    }


# -- forms -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "path", "held"),
    [
        ("see /home/ann/shop/src/api.py", "src/api.py", True),
        ("see src/api.py", "/home/ann/shop/src/api.py", True),
        ("see ./src/api.py", "src/api.py", True),
        ("see other/src/api.py", "shop/src/api.py", False),
        ("see api.py", "/home/ann/shop/src/api.py", False),
        ("see src/api.py", "shop/src/api.py", False),
        ("see src/api.pyc", "src/api.py", False),
    ],
)
def test_a_path_is_found_in_any_unambiguous_form(
    text: str, path: str, held: bool
) -> None:
    assert holds(text, Atom("path", path)) is held


@pytest.mark.parametrize(
    "before", ["", "    ", "  12\t", "12→", "428|", "src/a.py:12:", "+", "- "]
)
def test_a_line_is_found_after_any_prefix_of_a_tool(before: str) -> None:
    assert holds(
        f"{before}value = compute(offset, row)",
        Atom("line", "value = compute(offset, row)"),
    )


def test_a_long_commit_id_contains_its_abbreviation_but_not_vice_versa() -> None:
    long = "3f2a91c0b7d4e5f60718293a4b5c6d7e8f901234"
    assert holds(f"commit {long}", Atom("hash", long[:7]))
    assert not holds(f"commit {long[:7]}", Atom("hash", long))


def test_a_part_of_a_name_does_not_match_the_name() -> None:
    assert not holds("compute_totals()", Atom("identifier", "compute_total"))
