import pytest

from foldline.evaluation.judge.answers import (
    Absent,
    Ground,
    Place,
    Probe,
    Text,
    Truth,
    marks,
)

REFUSES = "Not in this session."


def marked(truth: Truth, answer: str, kind: str = "recall") -> dict[str, float]:
    return marks(Probe(kind, "?", truth), answer)  # type: ignore[arg-type]


def test_a_right_value_is_found_and_no_refusal() -> None:
    assert marked(Text("75", ("30",)), "75", "superseded") == {
        "superseded": 1,
        "false refusals": 0,
        "stale answers": 0,
    }


def test_an_old_value_is_wrong_and_stale() -> None:
    assert marked(Text("75", ("30",)), "30", "superseded") == {
        "superseded": 0,
        "false refusals": 0,
        "stale answers": 1,
    }


def test_a_refusal_is_right_only_where_there_is_nothing() -> None:
    assert marked(Absent("upload_cache.py"), REFUSES, "absent") == {"abstain": 1}
    assert marked(Absent("upload_cache.py"), "shop/net", "absent") == {"abstain": 0}
    assert marked(Text("75"), REFUSES) == {"recall": 0, "false refusals": 1}
    assert marked(Place("shop/net"), REFUSES) == {"recall": 0, "false refusals": 1}


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("`shop/net`", 1),
        ("/home/me/work/shop/net/", 1),
        ("It lies in /home/me/work/shop/net.", 1),
        ("net", 0),
        ("shop/api", 0),
        ("shop/net or shop/api", 0),
        ("", 0),
    ],
)
def test_a_folder_is_given_by_its_last_two_names_at_least(answer: str, right: int) -> None:
    assert marked(Place("/home/me/work/shop/net", least=2), answer)["recall"] == right


def test_what_only_a_judge_can_grade_gets_no_marks() -> None:
    assert marked(Ground(("a", "b")), "anything", "decision") == {}
