"""Sessions on disk: their logs, lists of sessions, and search.

An event file is an append-only log and the only source of truth. The files `meta.json` and `index.jsonl` next
to it are caches. Only one process at a time writes to a session. This package may import `past` and the
packages in the layers below `past`.
"""

from foldline.data import EVENTS, archive_dir, data_home, sessions_dir, typed_path

from .archive import Deleted, archive, delete, unarchive
from .catalog import (
    SessionInfo,
    age,
    find_session,
    info_of,
    latest,
    list_sessions,
    read_header,
    title_entry,
)
from .children import CHILDREN, child_events, children_of, tree_of
from .contents import CONTENTS, Contents, content_id
from .lock import SessionHeld
from .log import (
    Damage,
    EventLog,
    LoadedLog,
    WriteFailed,
    is_our_header,
    parse_log,
    read_log,
)
from .meta import Meta
from .origin import Folder, Parent, SessionPlace, Spawned, Tie, parent_of, spawned_of
from .paths import events_file, new_session_id, session_dir, short_id, workdir_key
from .search import EntrySearch, Hit, MessageKind, SearchResult
from .session import Clock, Session, Unsent, keep_unsent, take_unsent, utc_now

__all__ = [
    "CHILDREN",
    "CONTENTS",
    "EVENTS",
    "Clock",
    "Contents",
    "Damage",
    "Deleted",
    "EntrySearch",
    "EventLog",
    "Folder",
    "Hit",
    "LoadedLog",
    "MessageKind",
    "Meta",
    "Parent",
    "SearchResult",
    "Session",
    "SessionHeld",
    "SessionInfo",
    "SessionPlace",
    "Spawned",
    "Tie",
    "Unsent",
    "WriteFailed",
    "age",
    "archive",
    "archive_dir",
    "child_events",
    "children_of",
    "content_id",
    "data_home",
    "delete",
    "events_file",
    "find_session",
    "info_of",
    "is_our_header",
    "keep_unsent",
    "latest",
    "list_sessions",
    "new_session_id",
    "parent_of",
    "parse_log",
    "read_header",
    "read_log",
    "session_dir",
    "sessions_dir",
    "short_id",
    "spawned_of",
    "take_unsent",
    "title_entry",
    "tree_of",
    "typed_path",
    "unarchive",
    "utc_now",
    "workdir_key",
]
