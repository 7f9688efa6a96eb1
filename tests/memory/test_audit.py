"""The compaction audit reports lost facts, but not those a person would still find in the view."""

import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.memory.audit import Audit, Lost, audit, removed
from foldline.protocol import BaseMessage, SystemMessage, text_parts
from support.history import History, call, history, modified, read
from support.pi_messages import pi_messages
from support.recordings import needs_recorded, recordings


def messages_of(built: History) -> list[BaseMessage]:
    return [entry for entry in built.entries if isinstance(entry, BaseMessage)]


def summary(text: str) -> list[BaseMessage]:
    return [SystemMessage(origin="summary", parts=text_parts(text))]


def lost_facts(built: History, after: str = "") -> list[tuple[str, str]]:
    """Return kind and text of the facts lost by compacting everything into this summary."""
    return [
        (fact.kind, fact.text)
        for fact in audit(messages_of(built), summary(after)).lost
    ]


def work() -> History:
    return (
        history()
        .user(
            "The retry makes two orders. Never touch the payments table. 不要修改公开的接口。"
        )
        .step(
            "read",
            "SECRET_LIMIT = 12\nretry_window = 99\n" * 50,
            path="src/a.py",
            files=[read("src/a.py")],
        )
        .step(
            "bash",
            "E   LockError: could not obtain lock on orders\nexit 1",
            command="pytest -k retry -x",
        )
        .step("edit", "Edited.", path="src/b.py", files=[modified("src/b.py")])
        .step(
            "bash",
            "31 passed in 9.3s",
            command="cd api && alembic upgrade head 2>&1 | tail -5",
        )
        .assistant(
            "`OrderReplayed` is raised after 250 ms.\n\n- [ ] back-fill the keys of June"
        )
    )


# -- lost facts ----------------------------------------------------------------------------------


def test_lost_facts_are_sorted_by_importance() -> None:
    assert lost_facts(work(), "We work on orders.") == [
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


def test_a_lost_fact_names_every_compacted_entry_that_contains_it() -> None:
    built = history().user("use make test").gap(3).step("bash", "ok", command="make test").step(
        "bash", "ok", command="make test"
    )  # fmt: skip
    found = audit(messages_of(built), summary(""))
    assert found.lost == (Lost("command", "make test", (4, 6)),)
    assert found.facts == 1


def test_the_fact_count_includes_facts_that_were_kept() -> None:
    everything = audit(messages_of(work()), [])
    half = audit(
        messages_of(work()),
        summary("OrderReplayed, 31 passed. Never touch the payments table."),
    )
    assert half.facts == everything.facts == len(everything.lost)
    assert len(half.lost) == len(everything.lost) - 3


def test_the_users_facts_come_first_and_repeated_ones_before_single_ones() -> None:
    built = (
        history()
        .assistant("once_said twice_said")
        .assistant("twice_said")
        .user("user_said")
    )
    assert [text for _, text in lost_facts(built)] == [
        "user_said",
        "twice_said",
        "once_said",
    ]


def test_an_earlier_summarys_constraint_is_lost_if_the_next_summary_drops_it() -> None:
    earlier = (
        "## Goal\n- go\n\n<standing-constraints>\nNever push.\n</standing-constraints>"
    )
    assert audit(summary(earlier), summary("go")).lost == (
        Lost("constraint", "Never push.", (-1,)),
    )


# -- kept facts ---------------------------------------------------------------------------


def test_facts_in_the_ledger_are_not_lost_and_are_counted() -> None:
    ledger = "## Goal\n<ledger>\nNames.\n[entry 2] src/a.py: OrderReplayed\n</ledger>"
    found, without = (
        audit(messages_of(work()), summary(ledger)),
        audit(messages_of(work()), summary("## Goal")),
    )
    assert {fact.text for fact in without.lost} - {
        fact.text for fact in found.lost
    } >= {"OrderReplayed"}
    assert found.in_ledger == found.facts - len(found.lost) and without.in_ledger == 0


def test_a_line_of_an_earlier_ledger_is_not_a_fact_of_the_conversation() -> None:
    earlier = summary(
        "## Goal\n<ledger>\nNames.\n[entry 2] src/a.py: OrderReplayed\n</ledger>"
    )
    assert audit(earlier, summary("## Goal")).facts == 0


def test_nothing_is_lost_without_a_compaction() -> None:
    assert audit([], messages_of(work())) == Audit()
    assert audit(messages_of(work()), messages_of(work())).lost == ()


@pytest.mark.parametrize(
    ("compacted", "held"),
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
def test_a_path_in_another_form_is_not_lost(compacted: str, held: str) -> None:
    built = history().step("read", "x", path=compacted, files=[read(compacted)])
    assert lost_facts(built, held) == []
    assert lost_facts(built, "src/other/b.py") == [("path", compacted)]


def test_a_bare_file_name_does_not_match_a_path_if_two_files_share_it() -> None:
    built = history().user("Compare src/api/index.ts with src/web/index.ts")
    assert lost_facts(built, "index.ts was read") == [
        ("path", "src/api/index.ts"),
        ("path", "src/web/index.ts"),
    ]
    assert lost_facts(built, "src/api/index.ts was read") == [
        ("path", "src/web/index.ts")
    ]


def test_the_absolute_and_relative_path_of_a_file_are_one_fact() -> None:
    built = (
        history()
        .user("see src/a.py")
        .step("read", "x", path="/w/src/a.py", files=[read("/w/src/a.py")])
    )
    assert audit(messages_of(built), []).lost == (Lost("path", "src/a.py", (0, 2)),)


@pytest.mark.parametrize(
    "held",
    ["- never touch the\n  `payments` table", "> **Never** touch the payments table"],
)
def test_a_constraint_with_different_line_breaks_and_markup_is_not_lost(
    held: str,
) -> None:
    assert lost_facts(history().user("Never touch the payments table."), held) == []


def test_a_paraphrased_constraint_is_lost() -> None:
    built = history().user("不要修改公开的接口。请先看 README。")
    assert lost_facts(built, "接口保持不变 README") == [
        ("constraint", "不要修改公开的接口。")
    ]
    assert lost_facts(built, "约束：不要修改公开的\n接口。") == []


def test_a_command_with_different_white_space_is_not_lost() -> None:
    built = history().step(
        "bash", "", command="cd web && npm  run \\\n  check 2>&1 | tail -3"
    )
    assert lost_facts(built, "run `npm run\ncheck` first") == []
    assert lost_facts(built, "npm test") != []


def test_an_error_quoted_without_its_location_is_not_lost() -> None:
    line = "src/a.ts(12,3): error TS2339: Property 'x' does not exist on type 'Y'"
    built = history().step("bash", line, command="npm run check")
    assert (
        lost_facts(built, "npm run check: Property 'x' does not exist on type 'Y'")
        == []
    )
    assert lost_facts(built, "npm run check: a type error") == [("error", line)]


@pytest.mark.parametrize("held", ["port: 8,080", "Port 8080", "port=8080"])
def test_a_number_in_another_notation_is_not_lost(held: str) -> None:
    assert lost_facts(history().user("set port = 8080"), held) == []
    assert lost_facts(history().user("set port = 8080"), held.replace("8", "9")) == [
        ("number", "port = 8080")
    ]


def test_a_longer_identifier_does_not_match_the_one_inside_it() -> None:
    assert lost_facts(history().user("look at OrderItem"), "OrderItemList") == [
        ("identifier", "OrderItem")
    ]


def test_facts_in_call_arguments_of_the_view_are_not_lost() -> None:
    after = messages_of(
        history().assistant(
            calls=[call("bash", command="make deploy"), call("edit", new="order_id")]
        )
    )
    assert (
        audit(messages_of(history().user("`make deploy` sets order_id")), after).lost
        == ()
    )


# -- not facts -------------------------------------------------------------------------------


def test_the_body_of_a_file_that_was_read_is_not_reported() -> None:
    body = "\n".join(
        f"limit_{n} = {n}  # see lib/part_{n}.py, must be kept\nError: no {n}"
        for n in range(500)
    )
    built = history().step("read", body, path="src/a.py", files=[read("src/a.py")])
    assert lost_facts(built) == [("path", "src/a.py")]


def test_a_name_from_a_file_body_is_a_fact_once_it_is_mentioned() -> None:
    built = (
        history()
        .step("read", "def order_total(): ...", path="a.py")
        .assistant("order_total is wrong")
    )
    assert lost_facts(built) == [("identifier", "order_total")]


def test_read_only_commands_and_their_output_are_not_reported() -> None:
    built = history()
    for line in (
        "ls -la",
        "cat log | grep Error:",
        "cd src; git status",
        "sed -n 1,5p x | head",
        "sleep 5",
    ):
        built.step("bash", "Error: something is in here\nMAX_SIZE = 12", command=line)
    assert lost_facts(built) == []


def test_a_script_fed_to_a_command_is_not_one_of_its_commands() -> None:
    built = history().step("bash", "", command="cat > run.sh <<'EOF'\nmake deploy\nEOF")
    assert lost_facts(built) == [("path", "run.sh")]


def test_only_the_first_and_last_of_many_failures_are_reported() -> None:
    output = "\n".join(
        f"a.ts({n},1): error TS1005: ';' expected after {n} words" for n in range(80)
    )
    built = history().step("bash", output, command="npx tsc")
    assert [text for kind, text in lost_facts(built) if kind == "error"] == [
        f"a.ts({n},1): error TS1005: ';' expected after {n} words" for n in (0, 1, 79)
    ]


def test_a_failure_replaced_by_a_newer_run_comes_last() -> None:
    built = history()
    built.step(
        "bash", "TypeError: first attempt went wrong", command="pytest -q | tail"
    )
    built.step(
        "bash", "TypeError: second attempt went wrong", command="cd . && pytest -q"
    )
    assert lost_facts(built) == [
        ("error", "TypeError: second attempt went wrong"),
        ("command", "pytest -q"),
        ("error", "TypeError: first attempt went wrong"),
    ]


def test_an_item_ticked_off_later_is_not_an_open_todo() -> None:
    built = history().assistant("- [ ] write\n- [ ] test").assistant("- [x] write")
    assert lost_facts(built) == [("todo", "test")]


def test_only_the_newest_todo_list_is_open() -> None:
    def planned(*items: str) -> list[dict[str, str]]:
        return [{"content": item, "status": "pending"} for item in items]

    built = history()
    built.step("todo_write", "ok", todos=planned("write the index", "measure"))
    built.step("todo_write", "ok", todos=planned("measure"))
    assert audit(messages_of(built), []).lost == (Lost("todo", "measure", (0, 2)),)


@pytest.mark.parametrize(
    "text", ["/compact or /help", "and/or", "a.py/b.py", "main..HEAD", "cart.py:12"]
)
def test_slashes_and_positions_in_prose_are_neither_paths_nor_numbers(
    text: str,
) -> None:
    assert [
        fact
        for fact in lost_facts(history().assistant(text))
        if fact != ("path", "cart.py")
    ] == []


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
    built = (
        history()
        .user(asked)
        .assistant(said, calls=[call("bash", command=ran)])
        .result(came)
    )
    compacted = messages_of(built.assistant(said))
    found = audit(compacted, [])
    quoted = "\n".join(f"- {fact.text}" for fact in found.lost)
    assert audit(compacted, summary(quoted)) == Audit(facts=found.facts)
    assert audit(compacted, compacted).lost == ()
    assert audit(compacted, []) == found
    assert {index for fact in found.lost for index in fact.indices} <= {
        each.index for each in compacted
    }


def test_clipped_and_hidden_messages_count_as_compacted() -> None:
    before = messages_of(work())
    clipped = before[2].model_copy(update={"parts": text_parts("SECRET_LIMIT = 12 …")})
    assert removed(before, before) == []
    assert removed(before, [*before[:2], clipped, *before[4:]]) == before[2:4]


@pytest.mark.quick_cases(1)
@needs_recorded
@pytest.mark.parametrize("file", recordings("pi"), ids=lambda path: path.name)
def test_a_recorded_session_contains_all_its_own_facts(file) -> None:
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


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("piece", NASTY)
def test_the_audit_takes_linear_time(piece: str) -> None:
    """A quadratic search would take 16 times as long for 4 times the text; the rest is noise."""
    short, long = (
        _compacted(piece * (size // len(piece))) for size in (25_000, 100_000)
    )
    assert _seconds(long) < 10 * _seconds(short) + 0.1


def _compacted(text: str) -> Sequence[BaseMessage]:
    return messages_of(
        history().user(text).assistant(text).step("bash", text, command=text)
    )


def _seconds(compacted: Sequence[BaseMessage]) -> float:
    start = time.process_time()
    audit(compacted, compacted)
    return time.process_time() - start
