from hypothesis import given
from hypothesis import strategies as st

from foldline.context.budget import units_of
from foldline.context.importance import LONGEST_UNIT_TEXT, current_task, unit_text
from foldline.context.tokens import estimate_tokens
from support.history import History, history


def task(built: History) -> str:
    at_hand = current_task(units_of(item.message for item in built.projection().view))
    return f"{at_hand.requests}\n{at_hand.steps}"


def test_a_gist_names_call_path_and_both_ends_of_the_result() -> None:
    built = history().step("read", "first line\n" + "middle\n" * 900 + "last line", path="src/cart.py")
    [unit] = units_of(item.message for item in built.projection().view)
    text = unit_text(unit)
    for piece in ("read", "src/cart.py", "first line", "last line"):
        assert piece in text


@given(st.text(alphabet="aé你好🚀 \n0", max_size=4_000))
def test_a_gist_is_never_longer_than_a_small_model_reads(text: str) -> None:
    [unit] = units_of([history().user("x" + text).entries[0]])  # type: ignore[list-item]
    assert estimate_tokens(unit_text(unit)) <= LONGEST_UNIT_TEXT


def test_the_task_is_the_newest_requests_and_steps() -> None:
    built = (
        history().turn("the very old request", "done").turn("an old request", "done").user("fix the login")
    )
    built.step("bash", "401", command="curl /login")
    assert "fix the login" in task(built)
    assert "curl /login" in task(built)
    assert "very old" not in task(built)


def test_behind_a_consent_the_task_is_what_it_agrees_to() -> None:
    built = (
        history().user("what can we do?").assistant("We could cache the invoices.").user("好的，按你说的做")
    )
    assert "cache the invoices" in task(built)
