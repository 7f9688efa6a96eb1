import pytest

from foldline.evaluation.judge.answers import gives, is_refusal, named_paths, normal, same_file

SAME = [
    ("246", "`246`"),
    ("246", "The value is 246."),
    ("request_timeout", "Answer: **request_timeout**"),
    ("1500", "1,500 ms"),
    ("30 s", "30s"),
    ("75", "７５"),
    ("it's done", "it’s  done."),
    ("不要修改公共接口", "不要 修改公共接口。"),
    ("使用 Redis 缓存", "使用Redis缓存"),
    ("a-b", "a–b"),
    ("#8abeb7", '"#8ABEB7"'),
    ("public signature of the client.", "You must never change the public signature of the client"),
    ("522", "<think>Was it 531? No.</think>522 passed"),
]


@pytest.mark.parametrize(("wanted", "answer"), SAME)
def test_what_a_model_writes_differently_without_meaning_it_is_the_same(wanted: str, answer: str) -> None:
    assert gives(answer, wanted)


OTHERS = [
    ("246", "1246"),
    ("246", "2465"),
    ("30", "30.5"),
    ("30", "-30"),
    ("30 s", "30 seconds"),
    ("timeout", "request_timeout"),
    ("75", ""),
    ("75", "Not in this session."),
    ("75", "It could be any of these: " + ", ".join(map(str, range(200)))),
    ("保持兼容", "保持"),
]


@pytest.mark.parametrize(("wanted", "answer"), OTHERS)
def test_what_only_looks_alike_is_not(wanted: str, answer: str) -> None:
    assert not gives(answer, wanted)


def test_an_answer_that_gives_the_old_value_too_is_wrong() -> None:
    assert gives("75", "75", ["30", "45"])
    assert not gives("45 at first, then 75", "75", ["30", "45"])
    assert gives("`this.settings.get`", "this.settings.get", ["settings.get"])


def test_a_refusal_may_have_a_few_words_around_it() -> None:
    assert is_refusal("Not in this session.")
    assert is_refusal("Sorry, that is not in this session")
    assert not is_refusal("The file is not in this session's folder list, but it was made later: " + "x" * 60)
    assert not is_refusal("75")


def test_paths_are_the_same_where_the_shorter_one_ends_the_longer_one() -> None:
    assert same_file("/home/me/shop/src/cart.py", "src/cart.py")
    assert same_file("./src/cart.py", "src\\cart.py")
    assert not same_file("src/cart.py", "src/smart.py")
    assert not same_file("src/smartcart.py", "cart.py")


def test_paths_are_found_in_lists_however_they_are_written() -> None:
    answer = """Here are the files:
- `src/cart.py` (changed twice)
* docs/guide/notes.md - read only
项目/说明.md
/home/me/Makefile
src/a.py and src/b.py
"""
    assert named_paths(answer) == [
        "src/cart.py",
        "docs/guide/notes.md",
        "项目/说明.md",
        "/home/me/Makefile",
        "src/a.py",
        "src/b.py",
    ]


def test_normalising_twice_changes_nothing() -> None:
    for text, answer in [*SAME, *OTHERS]:
        assert normal(normal(text)) == normal(text)
        assert normal(normal(answer)) == normal(answer)
