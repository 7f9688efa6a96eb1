"""What a compaction loses is told; what a person would still find in the view is not."""

import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.context.audit import Audit, Lost, audit, taken
from foldline.protocol import BaseMessage, SystemMessage, text_parts
from support.history import History, call, history, modified, read
from support.pi_messages import pi_messages
from support.recorded import needs_recorded, recorded


def of(built: History) -> list[BaseMessage]:
    return [entry for entry in built.entries if isinstance(entry, BaseMessage)]


def summary(text: str) -> list[BaseMessage]:
    return [SystemMessage(origin="summary", parts=text_parts(text))]


def lost(built: History, after: str = "") -> list[tuple[str, str]]:
    """Kind and text of what a fold of all this into a summary of this text loses."""
    return [(fact.kind, fact.text) for fact in audit(of(built), summary(after)).lost]


def work() -> History:
    return (
        history()
        .user("The retry makes two orders. Never touch the payments table. 不要修改公开的接口。")
        .step(
            "read", "SECRET_LIMIT = 12\nretry_window = 99\n" * 50, path="src/a.py", files=[read("src/a.py")]
        )
        .step("bash", "E   LockError: could not obtain lock on orders\nexit 1", command="pytest -k retry -x")
        .step("edit", "Edited.", path="src/b.py", files=[modified("src/b.py")])
        .step("bash", "31 passed in 9.3s", command="cd api && alembic upgrade head 2>&1 | tail -5")
        .assistant("`OrderReplayed` is raised after 250 ms.\n\n- [ ] back-fill the keys of June")
    )


# -- what is lost ----------------------------------------------------------------------------------


def test_what_only_the_compacted_part_held_is_lost_worth_most_first() -> None:
    assert lost(work(), "We work on orders.") == [
        ("constraint", "Never touch the payments table."),
        ("constraint", "不要修改公开的接口。"),
        ("todo", "back-fill the keys of June"),
        ("error", "E   LockError: could not obtain lock on orders"),
        ("command", "alembic upgrade head"),
        ("command", "pytest -k retry -x"),
        ("path", "src/b.py"),
        ("path", "src/a.py"),
        ("number", "250 ms"),
        ("identifier", "OrderReplayed"),
        ("number", "31 passed"),
    ]


def test_a_lost_fact_names_every_compacted_entry_that_holds_it() -> None:
    built = history().user("use make test").gap(3).step("bash", "ok", command="make test").step(
        "bash", "ok", command="make test"
    )  # fmt: skip
    found = audit(of(built), summary(""))
    assert found.lost == (Lost("command", "make test", (4, 6)),)
    assert found.facts == 1


def test_facts_count_whether_lost_or_not() -> None:
    everything = audit(of(work()), [])
    half = audit(of(work()), summary("OrderReplayed, 31 passed. Never touch the payments table."))
    assert half.facts == everything.facts == len(everything.lost)
    assert len(half.lost) == len(everything.lost) - 3


def test_what_the_user_said_comes_before_what_others_said_and_repeated_before_single() -> None:
    built = history().assistant("once_said twice_said").assistant("twice_said").user("user_said")
    assert [text for _, text in lost(built)] == ["user_said", "twice_said", "once_said"]


def test_a_standing_constraint_an_earlier_summary_quoted_is_lost_when_the_next_one_drops_it() -> None:
    earlier = "## Goal\n- go\n\n<standing-constraints>\nNever push.\n</standing-constraints>"
    assert audit(summary(earlier), summary("go")).lost == (Lost("constraint", "Never push.", (-1,)),)


# -- what is still there ---------------------------------------------------------------------------


def test_what_the_ledger_holds_is_not_lost_and_is_counted() -> None:
    ledger = "## Goal\n<ledger>\nNames.\n[entry 2] src/a.py: OrderReplayed\n</ledger>"
    found, without = audit(of(work()), summary(ledger)), audit(of(work()), summary("## Goal"))
    assert {fact.text for fact in without.lost} - {fact.text for fact in found.lost} >= {"OrderReplayed"}
    assert found.in_ledger == found.facts - len(found.lost) and without.in_ledger == 0


def test_what_an_earlier_ledger_quoted_is_no_fact_that_somebody_said() -> None:
    earlier = summary("## Goal\n<ledger>\nNames.\n[entry 2] src/a.py: OrderReplayed\n</ledger>")
    assert audit(earlier, summary("## Goal")).facts == 0


def test_nothing_is_lost_where_nothing_was_compacted() -> None:
    assert audit([], of(work())) == Audit()
    assert audit(of(work()), of(work())).lost == ()


@pytest.mark.parametrize(
    ("folded", "held"),
    [
        ("./src/a.py", "src/a.py"),
        ("src/a.py", "./src/a.py"),
        ("src/shop/a.py", "/work/api/src/shop/a.py"),
        ("/work/api/src/shop/a.py", "src/shop/a.py"),
        ("~/notes/a.md", "/home/me/notes/a.md"),
        ("src/shop/a.py", "a.py: the key is looked up"),
        ("/work/api/conf", "/work/api/conf/app.toml"),
        ("src/shop/a.py", "读取src/shop/a.py的内容"),
    ],
)
def test_a_path_in_another_form_is_not_lost(folded: str, held: str) -> None:
    built = history().step("read", "x", path=folded, files=[read(folded)])
    assert lost(built, held) == []
    assert lost(built, "src/other/b.py") == [("path", folded)]


def test_a_bare_name_stands_for_no_path_where_two_files_share_it() -> None:
    built = history().user("Compare src/api/index.ts with src/web/index.ts")
    assert lost(built, "index.ts was read") == [("path", "src/api/index.ts"), ("path", "src/web/index.ts")]
    assert lost(built, "src/api/index.ts was read") == [("path", "src/web/index.ts")]


def test_an_absolute_and_a_relative_path_of_one_file_are_one_fact() -> None:
    built = history().user("see src/a.py").step("read", "x", path="/w/src/a.py", files=[read("/w/src/a.py")])
    assert audit(of(built), []).lost == (Lost("path", "src/a.py", (0, 2)),)


@pytest.mark.parametrize(
    "held",
    ["- never touch the\n  `payments` table", "> **Never** touch the payments table"],
)
def test_a_constraint_in_other_line_breaks_and_marks_is_not_lost(held: str) -> None:
    assert lost(history().user("Never touch the payments table."), held) == []


def test_a_paraphrased_constraint_is_lost() -> None:
    built = history().user("不要修改公开的接口。请先看 README。")
    assert lost(built, "接口保持不变 README") == [("constraint", "不要修改公开的接口。")]
    assert lost(built, "约束：不要修改公开的\n接口。") == []


def test_a_command_in_other_white_space_is_not_lost() -> None:
    built = history().step("bash", "", command="cd web && npm  run \\\n  check 2>&1 | tail -3")
    assert lost(built, "run `npm run\ncheck` first") == []
    assert lost(built, "npm test") != []


def test_an_error_quoted_without_its_place_is_not_lost() -> None:
    line = "src/a.ts(12,3): error TS2339: Property 'x' does not exist on type 'Y'"
    built = history().step("bash", line, command="npm run check")
    assert lost(built, "npm run check: Property 'x' does not exist on type 'Y'") == []
    assert lost(built, "npm run check: a type error") == [("error", line)]


@pytest.mark.parametrize("held", ["port: 8,080", "Port 8080", "port=8080"])
def test_a_number_with_another_sign_is_not_lost(held: str) -> None:
    assert lost(history().user("set port = 8080"), held) == []
    assert lost(history().user("set port = 8080"), held.replace("8", "9")) == [("number", "port = 8080")]


def test_an_identifier_within_a_longer_one_is_another() -> None:
    assert lost(history().user("look at OrderItem"), "OrderItemList") == [("identifier", "OrderItem")]


def test_arguments_of_calls_in_the_view_count_as_said() -> None:
    after = of(history().assistant(calls=[call("bash", command="make deploy"), call("edit", new="order_id")]))
    assert audit(of(history().user("`make deploy` sets order_id")), after).lost == ()


# -- what is no fact -------------------------------------------------------------------------------


def test_the_body_of_a_file_that_was_read_is_not_reported() -> None:
    body = "\n".join(
        f"limit_{n} = {n}  # see lib/part_{n}.py, must be kept\nError: no {n}" for n in range(500)
    )
    built = history().step("read", body, path="src/a.py", files=[read("src/a.py")])
    assert lost(built) == [("path", "src/a.py")]


def test_a_name_in_a_file_that_was_read_is_lost_once_somebody_speaks_of_it() -> None:
    built = history().step("read", "def order_total(): ...", path="a.py").assistant("order_total is wrong")
    assert lost(built) == [("identifier", "order_total")]


def test_commands_that_only_look_and_what_they_show_are_not_reported() -> None:
    built = history()
    for line in ("ls -la", "cat log | grep Error:", "cd src; git status", "sed -n 1,5p x | head", "sleep 5"):
        built.step("bash", "Error: something is in here\nMAX_SIZE = 12", command=line)
    assert lost(built) == []


def test_a_script_fed_to_a_command_is_not_one_of_its_commands() -> None:
    built = history().step("bash", "", command="cat > run.sh <<'EOF'\nmake deploy\nEOF")
    assert lost(built) == [("path", "run.sh")]


def test_of_many_failures_the_first_and_the_last_are_reported() -> None:
    output = "\n".join(f"a.ts({n},1): error TS1005: ';' expected after {n} words" for n in range(80))
    built = history().step("bash", output, command="npx tsc")
    assert [text for kind, text in lost(built) if kind == "error"] == [
        f"a.ts({n},1): error TS1005: ';' expected after {n} words" for n in (0, 1, 79)
    ]


def test_a_failure_that_a_newer_run_replaced_comes_last() -> None:
    built = history()
    built.step("bash", "TypeError: first attempt went wrong", command="pytest -q | tail")
    built.step("bash", "TypeError: second attempt went wrong", command="cd . && pytest -q")
    assert lost(built) == [
        ("error", "TypeError: second attempt went wrong"),
        ("command", "pytest -q"),
        ("error", "TypeError: first attempt went wrong"),
    ]


def test_an_item_ticked_off_later_is_no_open_todo() -> None:
    built = history().assistant("- [ ] write\n- [ ] test").assistant("- [x] write")
    assert lost(built) == [("todo", "test")]


def test_only_the_newest_todo_list_is_open() -> None:
    def planned(*items: str) -> list[dict[str, str]]:
        return [{"content": item, "status": "pending"} for item in items]

    built = history()
    built.step("todo_write", "ok", todos=planned("write the index", "measure"))
    built.step("todo_write", "ok", todos=planned("measure"))
    assert audit(of(built), []).lost == (Lost("todo", "measure", (0, 2)),)


@pytest.mark.parametrize("text", ["/compact or /help", "and/or", "a.py/b.py", "main..HEAD", "cart.py:12"])
def test_slashes_and_places_in_prose_are_neither_paths_nor_numbers(text: str) -> None:
    assert [fact for fact in lost(history().assistant(text)) if fact != ("path", "cart.py")] == []


# -- promises --------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        "Never touch the payments table.",
        "不要修改公开的接口。",
        "必须使用 order_id 字段，不得更改 src/shop/a.py。",
        "- [ ] back-fill the keys",
        "TODO: measure again",
        "see ./src/a.py and /work/api/conf/app.toml and ../x/b.ts, or Makefile",
        "run `npm run check -- --all` then `pytest -k 'a or b'`",
        "$ PGOPTIONS=\"-c lock_timeout=2s\" alembic upgrade head",
        "asyncpg.exceptions.LockError: could not obtain lock",
        "错误：找不到文件",
        "p95 = 412 ms, 16,384 tokens, 35 %, 30秒, retries=3",
        "OrderReplayed calls insert_or_get via MAX_SIZE",
        "```\nclass Fenced: ...\n```",
        "    at Object.run (/srv/app/x.js:12:3)",
    ]
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=6).map("\n".join)


@given(TEXTS, TEXTS, TEXTS, TEXTS)
def test_a_fact_quoted_verbatim_in_the_summary_is_never_lost(
    asked: str, said: str, ran: str, came: str
) -> None:
    built = history().user(asked).assistant(said, calls=[call("bash", command=ran)]).result(came)
    folded = of(built.assistant(said))
    found = audit(folded, [])
    quoted = "\n".join(f"- {fact.text}" for fact in found.lost)
    assert audit(folded, summary(quoted)) == Audit(facts=found.facts)
    assert audit(folded, folded).lost == ()
    assert audit(folded, []) == found
    assert {index for fact in found.lost for index in fact.indices} <= {each.index for each in folded}


def test_clipped_and_hidden_messages_count_as_taken() -> None:
    before = of(work())
    clipped = before[2].model_copy(update={"parts": text_parts("SECRET_LIMIT = 12 …")})
    assert taken(before, before) == []
    assert taken(before, [*before[:2], clipped, *before[4:]]) == before[2:4]


@needs_recorded
@pytest.mark.parametrize("file", recorded("pi"), ids=lambda path: path.name)
def test_recorded_sessions_hold_all_their_own_facts(file) -> None:
    messages = pi_messages(file)
    found = audit(messages, messages)
    assert found.lost == ()
    assert found.facts > 0


NASTY = [
    "$(",
    '"',
    "'",
    "a) ",
    " )",
    "do ",
    "A=",
    "/a",
    "a/",
    "a.py ",
    "不要",
    "- [ ] a",
    "Error: ",
    "1 a",
    "    at ",
]


@pytest.mark.parametrize("piece", NASTY)
def test_time_grows_no_faster_than_the_text(piece: str) -> None:
    """A quadratic search would take 16 times as long for 4 times the text; the rest is noise."""
    short, long = (_folded(piece * (size // len(piece))) for size in (25_000, 100_000))
    assert _seconds(long) < 10 * _seconds(short) + 0.1


def _folded(text: str) -> Sequence[BaseMessage]:
    return of(history().user(text).assistant(text).step("bash", text, command=text))


def _seconds(folded: Sequence[BaseMessage]) -> float:
    start = time.process_time()
    audit(folded, folded)
    return time.process_time() - start
