"""A session as one file: it arrives as it left, and a file made by somebody else does no harm."""

import asyncio
import hashlib
import io
import json
import os
import stat
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.formats import bundle, read_foreign
from foldline.formats.bundle import is_member, read_bundle, unpack, write_bundle
from foldline.formats.export import Original, only_view
from foldline.formats.redaction import redacted
from foldline.formats.subagents import keep_subagents, originals_of, subagents_of
from foldline.history import Session, read_log
from foldline.past.proof import digest_of
from foldline.protocol import FileImage, FoldlineError, RequestRecord
from foldline.view.calls import paired
from foldline.view.projection import project
from support.fake_secrets import SHAPES
from support.history import IMAGE, History, call, history
from support.limits import examples
from support.recordings import SHARED, needs_recorded
from support.sentences import pattern
from support.session_trees import TREES, Tree, tree_contents
from support.session_trees import write_tree as kept_tree

CONTENT = b"before\n"
CONTENT_NAME = "contents/" + hashlib.sha256(CONTENT).hexdigest()


def worked() -> History:
    """A session with a request that is proved, an image, a compaction's worth of text, a rewind and a pin."""
    story = history().system("You help.").user("look", images=1)
    story.checkpoint(
        1, FileImage(path="a.py", before=hashlib.sha256(CONTENT).hexdigest())
    )
    story.step(
        "bash",
        "out\n" * 50,
        full_output="/home/outputs/1.txt",
        command="ls \u202e 日本",
    )
    story.user("again").assistant(
        "Sure.", thinking="hm", calls=[call("read", path="a.py")]
    ).result("x\u0000y")
    story.edit("pin", 1).revert(1, kept=1, message="skip it").user("third")
    sent = paired(item.message for item in story.projection().view)
    story.add(
        RequestRecord(
            digest=digest_of(sent), model="m", after=story.last, view_items=len(sent)
        )
    )
    return story.assistant("Done.")


def kept(tmp_path: Path, story: History) -> Path:
    """A session of ours on disk with side files; its folder."""
    session = Session.create(tmp_path / "project", home=tmp_path / "home")
    asyncio.run(session.append(*story.entries))
    session.close()
    assert session.path is not None
    folder = session.path.parent
    for name, data in {
        "outputs/1.txt": b"whole\xff output",
        CONTENT_NAME: CONTENT,
    }.items():
        (folder / name).parent.mkdir()
        (folder / name).write_bytes(data)
    return folder


def exported(folder: Path) -> Original:
    loaded = read_log(folder / "events.jsonl")
    return Original(loaded.header, loaded.entries, project(loaded.entries), folder)


def members(packed: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def next_request(path: Path) -> str:
    return digest_of(
        paired(item.message for item in project(read_foreign(path).entries).view)
    )


def packed(
    files: Mapping[str, bytes],
    change: Callable[[zipfile.ZipInfo], None] = lambda info: None,
) -> bytes:
    """A session file as anybody could make it."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            change(info)
            archive.writestr(info, content)
    return data.getvalue()


MANIFEST = json.dumps({"format": "foldline-session", "version": 1}).encode()
HEADER = b'{"type":"session","version":1,"id":"x","created_at":"2026-01-01T00:00:00Z","cwd":"/w"}\n'
SOUND = {
    "manifest.json": MANIFEST,
    "events.jsonl": HEADER + b'{"type":"clear","index":0}\n',
}


# --- what goes in comes out ---------------------------------------------------------------------------


def test_history_and_side_files_are_in_it_byte_for_byte(tmp_path: Path) -> None:
    folder = kept(tmp_path, worked())
    with (folder / "events.jsonl").open("ab") as file:
        file.write(b'{"type":"of-tomorrow","index":99,"x":[1,  2]}\n{"torn')
    out = members(write_bundle(exported(folder)).data)
    assert out.pop("manifest.json")
    names = ("events.jsonl", "outputs/1.txt", CONTENT_NAME)
    assert out == {name: (folder / name).read_bytes() for name in names}


def test_what_the_history_does_not_speak_of_stays_at_home(tmp_path: Path) -> None:
    """A fork shares the side files of what came later in the session it is of."""
    folder = kept(tmp_path, worked())
    later = "contents/" + hashlib.sha256(b"later").hexdigest()
    for name in (later, "outputs/later.txt"):
        (folder / name).write_text("later")
    for original in (exported(folder), redacted(exported(folder))):
        assert members(write_bundle(original).data).keys() == {
            "manifest.json", "events.jsonl", "outputs/1.txt", CONTENT_NAME
        }  # fmt: skip
    view = only_view(exported(folder))
    assert CONTENT_NAME not in members(write_bundle(view).data)


def test_the_same_session_gives_the_same_file(tmp_path: Path) -> None:
    original = exported(kept(tmp_path, worked()))
    assert write_bundle(original).data == write_bundle(original).data


def test_links_and_names_that_could_not_be_read_again_are_left_out_and_named(
    tmp_path: Path,
) -> None:
    folder = kept(tmp_path, worked())
    (tmp_path / "secret").write_text("of somebody else")
    (folder / "outputs" / "link.txt").symlink_to(tmp_path / "secret")
    (folder / "outputs" / "a:b").write_text("x")
    (folder / "outputs" / os.fsdecode(b"a\xff")).write_text("x")
    written = write_bundle(exported(folder))
    out = members(written.data)
    assert not any(name.endswith(("link.txt", "a:b")) for name in out)
    assert json.loads(out["manifest.json"])["left_out"] == {
        f"outputs/{name}": "not a name of a session's file"
        for name in ("a:b", "a\udcff")
    }
    assert len(written.notes) == 1


def test_redacted_contents_stay_at_home_for_they_would_not_be_what_their_names_say(
    tmp_path: Path,
) -> None:
    secret = SHAPES["GitHub token"]
    digest = hashlib.sha256(secret.encode()).hexdigest()
    story = worked().checkpoint(2, FileImage(path=".env", after=digest))
    folder = kept(tmp_path, story.step("bash", "out", full_output="2.txt"))
    name = f"contents/{digest}"
    (folder / name).write_text(secret)
    (folder / "outputs/2.txt").write_bytes(b"\xff " + secret.encode())
    out = members(write_bundle(redacted(exported(folder))).data)
    assert name not in out
    assert CONTENT_NAME in out
    assert out["outputs/2.txt"] == b"\xff [redacted:github-token-1]"
    assert json.loads(out["manifest.json"])["redacted"] == {"github-token": 1}


def test_a_session_file_is_read_like_the_session_it_was_made_of(tmp_path: Path) -> None:
    folder = kept(tmp_path, worked())
    path = tmp_path / "a.foldline"
    path.write_bytes(write_bundle(exported(folder)).data)
    found, ours = read_foreign(path), read_foreign(folder)
    assert (found.header, found.entries, found.damage) == (
        ours.header,
        ours.entries,
        ours.damage,
    )
    assert next_request(path) == next_request(folder)
    assert IMAGE in [
        part for item in project(found.entries).view for part in item.message.parts
    ]


def test_side_files_are_unpacked_for_their_owner_only(tmp_path: Path) -> None:
    folder = kept(tmp_path, worked())
    path, target = tmp_path / "a.foldline", tmp_path / "new"
    path.write_bytes(write_bundle(exported(folder)).data)
    target.mkdir()
    assert unpack(path, target) == []
    for name in ("outputs/1.txt", CONTENT_NAME):
        assert (target / name).read_bytes() == (folder / name).read_bytes()
        assert stat.S_IMODE((target / name).stat().st_mode) == 0o600


@needs_recorded
@pytest.mark.parametrize(
    "file", ["claude-code/entire-manual-compact.jsonl", "pi/prsui-v3-a.jsonl"]
)
def test_another_agents_session_travels_as_ours(file: str, tmp_path: Path) -> None:
    found = read_foreign(SHARED / file)
    original = Original(found.header, found.entries, project(found.entries))
    path = tmp_path / "a.foldline"
    path.write_bytes(write_bundle(original).data)
    assert read_foreign(path).entries == found.entries
    assert next_request(path) == next_request(SHARED / file)


# --- what somebody else made ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["../events.jsonl", "/etc/passwd", "contents/../../x", "outputs/../x", "outputs/..", "outputs/a/b",
     "lock", "outputs\\x", "outputs/c:x", "contents/" + "g" * 64, "contents/" + "a" * 63, "outputs/",
     "OUTPUTS/x", "outputs/a\n", "outputs/\x00", "outputs/" + "日" * 90, "holder.json"],
)  # fmt: skip
def test_a_name_that_is_none_of_a_sessions_files_is_ignored(
    name: str, tmp_path: Path
) -> None:
    assert not is_member(name)
    path, target = tmp_path / "a.foldline", tmp_path / "deep" / "new"
    path.write_bytes(packed({**SOUND, name: b"evil"}))
    target.mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    assert unpack(path, target) == []
    assert sorted(tmp_path.rglob("*")) == before
    assert len(read_foreign(path).entries) == 1


def _link(info: zipfile.ZipInfo) -> None:
    if info.filename.startswith("outputs/"):
        info.external_attr = (stat.S_IFLNK | 0o777) << 16


def _as_bzip2(info: zipfile.ZipInfo) -> None:
    info.compress_type = zipfile.ZIP_BZIP2


def _encrypted() -> bytes:
    data = bytearray(packed(SOUND))
    for sign, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.find(sign)
        while at >= 0:
            data[at + place] |= 1
            at = data.find(sign, at + 4)
    return bytes(data)


def _twice() -> bytes:
    data = io.BytesIO(packed(SOUND))
    with (
        zipfile.ZipFile(data, "a") as archive,
        pytest.warns(UserWarning, match="Duplicate"),
    ):
        archive.writestr("events.jsonl", HEADER)
    return data.getvalue()


def _damaged() -> bytes:
    data = bytearray(packed({**SOUND, "events.jsonl": HEADER + bytes(range(256)) * 40}))
    at = data.find(b"events.jsonl") + 120
    data[at : at + 40] = bytes(40)
    return bytes(data)


ZEROS = bytes(35 * 1024**2)
REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "another zip": (
        lambda: packed({"a.txt": b"x"}),
        pattern(bundle.OTHER_ZIP),
    ),
    "no history": (
        lambda: packed({"manifest.json": MANIFEST}),
        pattern(bundle.OTHER_ZIP),
    ),
    "no manifest": (
        lambda: packed({"events.jsonl": HEADER}),
        pattern(bundle.OTHER_ZIP),
    ),
    "another's manifest": (
        lambda: packed({**SOUND, "manifest.json": b'{"format":"x"}'}),
        pattern(bundle.OTHER_ZIP),
    ),
    "a newer one": (
        lambda: packed({**SOUND, "manifest.json": MANIFEST.replace(b"1}", b"2}")}),
        "written by a newer Foldline",
    ),
    "a link": (
        lambda: packed({**SOUND, "outputs/x": b"/etc/passwd"}, _link),
        "contains links",
    ),
    "another packing": (
        lambda: packed(SOUND, _as_bzip2),
        "compressed in a way that session files never are",
    ),
    "encrypted": (_encrypted, "is encrypted"),
    "a name twice": (_twice, r"contains events\.jsonl more than once"),
    "a bomb": (
        lambda: packed({**SOUND, "outputs/x": ZEROS, "outputs/y": ZEROS}),
        "times its size",
    ),
    "cut off": (lambda: packed(SOUND)[:-30], pattern(bundle.DAMAGED)),
    "damaged": (_damaged, pattern(bundle.DAMAGED)),
    "not our events": (
        lambda: packed({**SOUND, "events.jsonl": b"hello\n"}),
        "does not begin with the header of",
    ),
}


@pytest.mark.parametrize(("made", "why"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_session_file_is_refused_in_one_sentence(
    made: Callable[[], bytes], why: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.foldline"
    path.write_bytes(made())
    with pytest.raises(FoldlineError, match=why) as refusal:
        read_foreign(path)
    assert str(refusal.value).count("\n") == 0
    assert str(path) in str(refusal.value)


def test_more_than_a_session_could_be_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = packed({**SOUND, "outputs/x": b"1234567890" * 20})
    monkeypatch.setattr(bundle, "MOST_BYTES", 100)
    with pytest.raises(FoldlineError, match="would unpack to"):
        read_bundle(data, tmp_path)
    monkeypatch.setattr(bundle, "MOST_BYTES", 10_000)
    monkeypatch.setattr(bundle, "MOST_MEMBERS", 2)
    with pytest.raises(FoldlineError, match="contains 3 files"):
        read_bundle(data, tmp_path)


@pytest.mark.parametrize(
    ("limit", "name"),
    [("MOST_HISTORY", "events.jsonl"), ("MOST_SIDE_FILE", "outputs/x")],
)
def test_no_member_is_unpacked_that_memory_may_not_hold(
    limit: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, limit, 10)
    with pytest.raises(
        FoldlineError, match=f"contains {name} with 0 MB unpacked; the maximum is 0 MB"
    ):
        read_bundle(packed({**SOUND, "outputs/x": b"1234567890a"}), tmp_path)


def test_a_content_that_is_not_what_its_name_says_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.foldline"
    path.write_bytes(
        packed({**SOUND, CONTENT_NAME: b"something else", "outputs/1": b"fine"})
    )
    (tmp_path / "new").mkdir()
    assert unpack(path, tmp_path / "new") == [CONTENT_NAME]
    assert [file.name for file in (tmp_path / "new").rglob("*") if file.is_file()] == [
        "1"
    ]


@given(st.data())
@settings(max_examples=examples(60))
def test_a_file_with_any_bytes_changed_is_read_or_refused_in_a_sentence(
    data: st.DataObject,
) -> None:
    sound = bytearray(packed({**SOUND, "outputs/1": b"text " * 20}))
    for _ in range(data.draw(st.integers(1, 4))):
        sound[data.draw(st.integers(4, len(sound) - 1))] = data.draw(
            st.integers(0, 255)
        )
    try:
        bundle = read_bundle(bytes(sound), Path("a.foldline"))
    except FoldlineError:
        return
    assert all(is_member(name) for name, _ in bundle.side_files())


# --- subagents --------------------------------------------------------------------------------------------


@given(tree=TREES)
@settings(max_examples=examples(30), deadline=None)
def test_a_tree_arrives_as_it_left(tree: Tree) -> None:
    with tempfile.TemporaryDirectory() as place:
        events = kept_tree(Path(place), tree)
        loaded = read_log(events)
        children = originals_of(subagents_of(events, loaded.entries), events)
        original = Original(
            loaded.header,
            loaded.entries,
            project(loaded.entries),
            events.parent,
            children=children,
        )
        file = Path(place, "it.foldline")
        file.write_bytes(write_bundle(original).data)
        found = read_foreign(file)
        copy = kept_tree(Path(place, "there"), {})
        keep_subagents(found.children, copy, "/x", str)
        there, here = tree_contents(copy), tree_contents(events)
        assert {name: text for name, text in there.items() if "/" in name} == {
            name: text for name, text in here.items() if "/" in name
        }
        assert list(found.entries) == list(loaded.entries)


@pytest.mark.parametrize(
    "folder", ["children/../x", "children/.a", "children/a b", "children//x", "other/a"]
)
def test_a_history_in_any_other_folder_is_no_subagent(
    tmp_path: Path, folder: str
) -> None:
    data = write_bundle(original_in(kept(tmp_path, worked()))).data
    file = tmp_path / "it.foldline"
    file.write_bytes(data)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(f"{folder}/events.jsonl", archive.read("events.jsonl"))
    assert read_foreign(file).children == ()


def original_in(folder: Path) -> Original:
    loaded = read_log(folder / "events.jsonl")
    return Original(loaded.header, loaded.entries, project(loaded.entries), folder)
