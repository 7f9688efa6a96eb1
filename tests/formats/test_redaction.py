"""`--redact`: credentials of every kind are nowhere in what is written, and everything else is as it was."""

import io
import json
import zipfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.formats import read_foreign
from foldline.formats.credentials import finds
from foldline.formats.export import WRITTEN, ExportFormat, Original
from foldline.formats.redaction import Redactor, redacted
from foldline.history import utc_now
from foldline.past.proof import NO_DIGEST, digest_of, unproved
from foldline.protocol import (
    AssistantMessage,
    Compaction,
    Entry,
    NoticeRecord,
    RequestRecord,
    SessionHeader,
    ThinkingPart,
    Title,
    ToolCallPart,
    ToolDetails,
    ToolResultMessage,
    Unknown,
    text_parts,
)
from foldline.view.projection import project
from support.fake_secrets import EVERY_SECRET, IN_CONTEXT, KEY_LINES, PEM, SHAPES
from support.history import call, history
from support.limits import examples
from support.recordings import compactable_recordings, needs_recorded


def original(
    entries: Sequence[Entry], folder: Path | None = None, cwd: str = "/work"
) -> Original:
    header = SessionHeader(id="20260101-000000-abcdef", created_at=utc_now(), cwd=cwd)
    return Original(header, entries, project(entries), folder)


def clean(text: str) -> str:
    redactor = Redactor()
    redactor.look_at(text)
    return redactor.text(text)


AROUND = {
    "prose": "The key is HERE, keep it.",
    "JSON": json.dumps({"key": "HERE", "x": "a\nb"}),
    "JSON in JSON": json.dumps({"out": json.dumps({"key": "HERE"})}),
    "after an escaped line end": '{"out": "a\\nHERE\\nb"}',
    "env file": "API_TOKEN=HERE\n",
    "diff": "@@ -1 +1 @@\n+HERE\n",
    "read with numbers": "     1→HERE\n     2→x",
}


@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND.keys())
@pytest.mark.parametrize("secret", SHAPES.values(), ids=SHAPES.keys())
def test_a_known_shape_is_found_wherever_it_stands(secret: str, around: str) -> None:
    said = clean(around.replace("HERE", secret))
    assert secret not in said
    assert secret[-12:] not in said
    assert said.replace("HERE", "").count("[redacted:") == 1


@pytest.mark.parametrize(("text", "secret"), IN_CONTEXT.values(), ids=IN_CONTEXT.keys())
def test_what_its_neighbours_give_away_is_found_plain_and_in_json(
    text: str, secret: str
) -> None:
    whole = text.replace("HERE", secret)
    for said in (
        whole,
        json.dumps({"out": whole}),
        json.dumps(json.dumps({"out": whole})),
    ):
        assert secret not in clean(said)
    assert clean(whole).startswith(whole.split(secret)[0])


@pytest.mark.parametrize(
    "block",
    [
        PEM,
        json.dumps(PEM),
        "\n".join(
            f"{number:6}→{line}" for number, line in enumerate(PEM.split("\n"), 1)
        ),
        "\n".join(f"+{line}" for line in PEM.split("\n")),
        PEM[: PEM.index("Qx9z2w==")],
        PEM.removesuffix("-----"),
    ],
    ids=["plain", "JSON", "numbered", "diff", "cut off", "cut off at its end"],
)
def test_a_private_key_goes_as_a_whole(block: str) -> None:
    said = clean(f"before\n{block}\nafter")
    assert not any(line in said for line in KEY_LINES)
    assert said.startswith("before\n")
    assert said.endswith("\nafter")
    assert said.count("[redacted:private-key-1]") == 1


@pytest.mark.parametrize(
    "text",
    [
        'if line.startswith("-----BEGIN RSA PRIVATE KEY-----"): raise',
        "Never show the private key to anyone.",
        "PASSWORD=${DB_PASSWORD}",
        'password = os.environ["DB_PASSWORD"]',
        'password: "Enter your password here"',
        "api_key = settings.openai.api_key",
        "export API_KEY=<your-key>",
        "postgres://user:${PASSWORD}@host/db",
        "commit 3f786850e387550fdaab836ed7e6dc881de23001",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "id 6f1c9d9e-8f0b-4a1d-9d8e-3c2b1a0f9e8d",
        "https://example.com:8080/a@b",
        "the task-management-and-planning-of-tomorrow",
        "data:image/png;base64," + "iVBORw0KGgoAAAANSUhEUgAKIAAAAASIAQWERTYUIOPLKJ" * 4,
    ],
)
def test_what_only_looks_a_little_like_one_stays(text: str) -> None:
    assert clean(text) == text


def test_the_same_credential_has_the_same_placeholder_everywhere_however_it_is_spelt() -> (
    None
):
    value = 'pA55"w0rd&x/9'
    redactor = Redactor()
    redactor.look_at(f"DB_PASSWORD='{value.replace(chr(34), '')}'")
    redactor.look_at(f"url: postgres://app:{quote(value, safe='')}@db/x")
    plain = value.replace('"', "")
    assert (
        redactor.text(f"I used {plain} again") == "I used [redacted:password-1] again"
    )
    assert redactor.counts == {"password": 1, "password-in-url": 1}
    assert plain not in str(redactor)


def test_a_word_that_is_somebodys_password_is_replaced_only_there() -> None:
    redactor = Redactor()
    redactor.look_at("postgres://postgres:postgres@db/shop")
    assert (
        redactor.text("postgres://postgres:postgres@db/shop").count(
            "[redacted:password-in-url-1]"
        )
        == 1
    )
    assert redactor.text("start postgres first") == "start postgres first"


def planted(tmp_path: Path) -> Original:
    """A session with every secret in every kind of place."""
    texts = [text.replace("HERE", value) for text, value in IN_CONTEXT.values()]
    everything = "\n".join([*SHAPES.values(), *texts, PEM])
    story = history().system("You help.").user(f"Here is my .env:\n{everything}")
    story.assistant(
        "I will.",
        thinking=f"They gave me {SHAPES['OpenAI key']}",
        calls=[call("write", path=".env", content=everything)],
    )
    result = ToolResultMessage(
        call_id=story._open[0].call_id,
        name="write",
        parts=text_parts(everything),
        details=ToolDetails(
            brief=SHAPES["GitHub token"],
            diff="".join(f"+{line}\n" for line in everything.split("\n")),
        ),
    )
    story.add(result)
    story.add(
        ToolResultMessage(call_id="gone", name="cat", parts=text_parts(everything))
    )
    story.add(NoticeRecord(text=SHAPES["Slack token"]))
    story.add(Title(title=f"Rotate {SHAPES['AWS access key']}"))
    story.assistant(f"Done with {IN_CONTEXT['env file'][1]}.")
    digest = digest_of([item.message for item in story.projection().view])
    story.add(
        RequestRecord(
            digest=digest,
            model="m",
            after=story.last,
            said=SHAPES["JSON web token"],
            error=JWT_ERROR,
        )
    )
    story.add(
        Compaction(summary=everything, first_kept_index=3, focus=SHAPES["Stripe key"])
    )
    story.add(
        Unknown.model_validate(
            {"type": "custom", "index": 0, "deep": [{SHAPES["npm token"]: everything}]}
        )
    )
    for name, data in (
        ("outputs/1.txt", everything),
        ("contents/" + "0" * 64, everything),
    ):
        path = tmp_path / name
        path.parent.mkdir()
        path.write_text(data)
    return original(story.entries, tmp_path, cwd=f"/work/{SHAPES['Google key']}")


JWT_ERROR = f"401: {SHAPES['JSON web token']} has expired"


@pytest.mark.parametrize("form", WRITTEN, ids=lambda form: form.name)
def test_no_planted_secret_is_in_any_byte_of_any_export(
    form: ExportFormat, tmp_path: Path
) -> None:
    exported = form.write(redacted(planted(tmp_path)))
    written = exported.data + repr(exported.notes).encode()
    if exported.data.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(exported.data)) as archive:
            written += b"".join(archive.read(name) for name in archive.namelist())
    for secret in EVERY_SECRET:
        for spelt in (
            secret,
            json.dumps(secret)[1:-1],
            quote(secret, safe=""),
            secret.replace("&", "&amp;"),
        ):
            assert spelt.encode() not in written
    assert b"[redacted:" in written or b"redacted" in written


def test_arguments_stay_json_and_untouched_entries_stay_themselves() -> None:
    odd = ToolCallPart(
        call_id="c",
        name="write",
        arguments='{"n": 1.50,  "text": "Ta\\u006bIA and plain"}',
    )
    secret = SHAPES["GitHub token"]
    story = history().user("hello").assistant(calls=[odd]).result("fine")
    story.assistant(
        calls=[call("bash", command=f'curl -H "X: {secret}" "a\\b"')]
    ).result("ok")
    done = redacted(original(story.entries))
    assert [
        new is old for new, old in zip(done.entries, story.entries, strict=True)
    ] == [
        True,
        True,
        True,
        False,
        True,
    ]
    (made,) = done.entries[3].calls  # type: ignore[attr-defined]
    assert json.loads(made.arguments) == {
        "command": 'curl -H "X: [redacted:github-token-1]" "a\\b"'
    }


def signed(text: str) -> list[Entry]:
    seal = f"EqQ+{SHAPES['OpenAI key']}"  # As good as any base64; no text can be read out of it.
    thought = ThinkingPart(text="", signature=seal, signed_by="gpt-5@api.openai.com")
    made = ToolCallPart(call_id="c1", name="read", arguments="{}", signature=seal)
    return [AssistantMessage(index=1, parts=(thought, *text_parts(text), made))]


def test_signatures_are_not_searched_and_go_only_where_there_is_something_to_hide() -> (
    None
):
    entries = signed("nothing of the kind")
    assert redacted(original(entries)).entries == entries
    answer = redacted(
        original(signed(f"the token is {SHAPES['GitHub token']}"))
    ).entries[0]
    assert isinstance(answer, AssistantMessage)
    thought, _, made = answer.parts
    assert thought == ThinkingPart(text="")
    assert made == ToolCallPart(call_id="c1", name="read", arguments="{}")


def test_a_requests_digest_goes_where_its_messages_changed_and_stays_where_they_did_not() -> (
    None
):
    story = history().system("s").user("hello")
    for text in ("first", SHAPES["npm token"], "last"):
        digest = digest_of([item.message for item in story.projection().view])
        story.add(
            RequestRecord(
                digest=digest,
                model="m",
                after=story.last,
                view_items=len(story.projection().view),
            )
        )
        story.assistant(text)
    done = redacted(original(story.entries))
    digests = [
        entry.digest for entry in done.entries if isinstance(entry, RequestRecord)
    ]
    assert [bool(digest) for digest in digests] == [True, True, False]
    (failure,) = unproved(done.entries)
    assert NO_DIGEST in str(failure)


@given(
    st.text(
        alphabet=st.sampled_from("aA1\\\"'=:/@ \n-BEGINKY._+{}eyJsk$"), max_size=300
    )
)
@settings(max_examples=examples(150))
def test_any_text_is_redacted_without_an_error_and_finds_lie_in_it_in_order(
    text: str,
) -> None:
    found = finds(text)
    assert all(0 <= find.start < find.end <= len(text) for find in found)
    assert all(one.end <= other.start for one, other in pairwise(found))


@pytest.mark.slow
@needs_recorded
def test_recorded_sessions_hold_next_to_nothing_that_is_taken_for_a_credential() -> (
    None
):
    counts = {}
    for path in compactable_recordings():
        if path.stat().st_size < 700_000:
            found = read_foreign(path)
            done = redacted(
                Original(found.header, found.entries, project(found.entries))
            )
            assert done.redactor is not None
            counts[path.name] = sum(done.redactor.counts.values())
    assert counts
    assert sum(counts.values()) <= 2


@pytest.mark.parametrize("form", WRITTEN, ids=lambda form: form.name)
def test_half_a_character_beside_a_credential_is_written_as_it_was(
    form: ExportFormat,
) -> None:
    secret = SHAPES["Anthropic key"]
    asked = ToolCallPart(
        call_id="c", name="read", arguments=f'{{"path": "\\ud800 {secret}"}}'
    )
    story = (
        history()
        .user("go")
        .add(AssistantMessage(parts=(asked,), stop_reason="tool_calls"))
    )
    written = form.write(redacted(original(story.entries)))
    assert secret.encode() not in written.data
