"""`foldline delete`: sessions that are gone for good, after a question."""

from foldline.history import (
    SessionInfo,
    age,
    data_home,
    delete,
    find_session,
    info_of,
    short_id,
    utc_now,
)

from .asking import confirmed
from .output import entries_of, note, say, say_json


def run(sources: list[str], yes: bool, as_json: bool) -> int:
    home = data_home()
    paths = dict.fromkeys(find_session(home, source) for source in sources)
    gone: list[dict[str, object]] = []
    try:  # one that cannot be deleted does not keep back what was done before it
        for info in [info_of(home, path) for path in paths]:
            if not confirmed(_question(info), yes=yes, how="--yes"):
                note(f"{short_id(info.id)} stays.")
                continue
            done = delete(home, info.path)
            gone.append({"id": info.id, "folder": str(done.folder), "files": done.files, "size": done.size})
            if not as_json:
                say(f"Deleted {info.id}: {done.folder}, {_files(done.files)}.")
    finally:
        if as_json:
            say_json(gone)
    return 0


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"


def _question(info: SessionInfo) -> str:
    meta = info.meta
    known = [
        entries_of(meta.entries) if info.readable else "unreadable",
        f"last written {age(meta.updated_at, utc_now().astimezone())}",
        *([f"“{meta.title}”"] if meta.title else []),
    ]
    return f"Delete {short_id(info.id)} ({', '.join(known)}) for good?"
