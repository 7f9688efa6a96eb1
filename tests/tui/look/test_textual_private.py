"""Each hook into Textual, as its code was when it was read: another version may have changed what it does."""

import hashlib
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers._writer_thread import WriterThread
from textual.drivers.linux_driver import LinuxDriver
from textual.reactive import _watch
from textual.screen import Screen
from textual.scroll_view import ScrollView
from textual.widget import Widget
from textual.widgets import Input, TextArea

HOOKS = {
    "faults are kept, nothing is printed": (App._handle_exception, "baea2e7f88e7"),
    "the app ends after a fault": (App._close_messages_no_wait, "f5db7e8fd40a"),
    "a driver and its app know each other": (App._build_driver, "2838e509bae0"),
    "what lines are filtered with": (App.get_line_filters, "8f245224fb57"),
    "a theme is applied": (App._watch_theme, "a6de38d37b42"),
    "a frame is written": (App._display, "4b78dff6669a"),
    "what is written of a part": (ChopsUpdate.render_segments, "4c1cdb567e0b"),
    "what is written of a whole frame": (LayoutUpdate.render_segments, "ff329c722506"),
    "the screens that may be seen through the top one": (
        App._background_screens.fget,
        "d925a6b09405",
    ),
    "what is behind a modal screen": (Screen.render, "c0f72894b398"),
    "a scroll view gets its size": (ScrollView._size_updated, "1606ca15d939"),
    "scrollbars are made": (Widget._refresh_scrollbars, "4e52a14aae90"),
    "what several clicks select": (Widget._on_click, "4c342a35c885"),
    "the bindings of a field": (Screen._modal_binding_chain.fget, "5efeabda85d7"),
    "keys of an input": (Input._on_key, "55068e7ce456"),
    "pastes of an input": (Input._on_paste, "4130f8efa484"),
    "keys of a text area": (TextArea._on_key, "7d96cf803349"),
    "pastes of a text area": (TextArea._on_paste, "786b2d3d97b5"),
    "text in place of a selection": (TextArea._replace_via_keyboard, "68ca5b810d1a"),
    "the cursor of a text area": (TextArea._draw_cursor.fget, "318c55ab8855"),
    "keys of a terminal": (XTermParser._sequence_to_key_events, "00dfe99846ed"),
    "going on after a stop": (LinuxDriver._sigcont_application, "1d7463a74df1"),
    "what waits to be written": (WriterThread.run, "314021aab4f5"),
    "who watches a value": (_watch, "d0a0965fc6ce"),
    "reading keys": (LinuxDriver.run_input_thread, "d796af6d69db"),
}
"""What it is for, Textual's code, and the digest of that in 8.2.8. Where one differs: read what changed, mend
`foldline/tui/look/textual_private.py` and its version, and put the new digest here."""


@pytest.mark.parametrize("hook", HOOKS)
def test_textual_does_there_what_it_did_when_it_was_read(hook: str) -> None:
    code, digest = HOOKS[hook]
    assert digest_of(code) == digest


def digest_of(code: Callable[..., Any]) -> str:
    return hashlib.sha256(inspect.getsource(code).encode()).hexdigest()[:12]
