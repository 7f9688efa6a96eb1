"""One HTML page: everything foreign is text, nothing is fetched, and the page reads without its script."""

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.formats import read_foreign
from foldline.formats.export import Original
from foldline.formats.writers.html import code, markdown, write_html
from foldline.history import utc_now
from foldline.protocol import (
    Entry,
    ImagePart,
    SessionHeader,
    Subagent,
    Title,
    UserMessage,
    text_parts,
)
from foldline.view.projection import project
from support.history import history
from support.limits import examples
from support.recordings import compactable_recordings, needs_recorded
from support.stories import Story, shop

VOID = {"meta", "input", "img", "br", "hr"}
TAGS = """
html head meta title style body header h1 h2 h3 h4 h5 h6 p code div span input button main details summary b i
a pre figure img figcaption script strong em s ul ol li blockquote hr br table thead tbody tr th td
"""
ALLOWED = set(TAGS.split())


class Page(HTMLParser):
    """Reads a page strictly: every tag is known and closed where it should be, no attribute acts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.pictures: list[str] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.policy = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED, tag
        known = dict(attrs)
        assert not any(
            name.startswith("on") or name in ("style", "srcset", "action")
            for name in known
        ), known
        if known.get("http-equiv"):
            self.policy = known["content"] or ""
        if "id" in known:
            self.ids.append(known["id"] or "")
        if tag == "a" and known.get("href"):
            self.links.append(known["href"] or "")
        if "src" in known:
            self.pictures.append(known["src"] or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.scripts if self.open[-1:] == ["script"] else self.texts).append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)


def original(entries: Sequence[Entry], cwd: str = "/work/shop") -> Original:
    header = SessionHeader(id="20260101-000000-abcdef", created_at=utc_now(), cwd=cwd)
    return Original(header, entries, project(entries))


def page(entries: Sequence[Entry], cwd: str = "/work/shop") -> Page:
    return Page(write_html(original(entries, cwd)).data.decode())


NASTY = (
    "</script><img src=x onerror=alert(1)>",
    "</title></style><script>alert(1)</script>",
    "<!--<script>",
    "]]><svg onload=alert(1)>",
    '" onmouseover="alert(1)" x=\'',
    "```html\n</pre></code><script>alert(1)</script>\n```",
    "[x](javascript:alert(1)) ![x](https://evil.example/p.png) <https://evil.example>",
    "[x](data:text/html,<script>alert(1)</script>) [y](JaVaScRiPt:alert(1)) [z](vbscript:x)",
    "`</code><b>` **</strong><i>**",
    "\u202egnp.exe\u202c\u2066x\u2069 \x00\x07\x1b]0;t\x07\x1b[2J\x9b",
    "| a |\n|---|\n| </table><script> |",
    "&lt;script&gt; &#60;script&#62; &amp;",
    "```diff\n+</span><script>\n-x\n```",
    "\ud800 half",
)


@pytest.mark.parametrize("text", NASTY)
def test_nothing_foreign_acts_wherever_it_stands(text: str) -> None:
    story = (
        Story()
        .system(text)
        .instructions(text, source=text)
        .user(text)
        .assistant(text, thinking=text)
    )
    story.tool(text, text, brief=text, command=text, intro=text)
    story.tool("read", f"     1→{text}\n     2→x", path=f"{text}.py")
    story.tool("edit", "ok", path="a.py", diff=f"@@ -1 +1 @@\n-{text}\n+{text}\n")
    story.notice(text).compaction(4, text).checkpoint(1).revert(1, message=text).add(
        Title(title=text)
    )
    shown = page(story.entries, cwd=text)
    assert len(shown.scripts) == 1
    assert all(link.startswith(("#e", "https://evil.example")) for link in shown.links)
    assert shown.pictures == []
    assert (
        re.search(
            r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown.text
        )
        is None
    )


@pytest.mark.parametrize("text", NASTY)
def test_a_subagents_session_stands_below_its_call_and_nothing_in_it_acts(
    text: str,
) -> None:
    child = original(Story().user(text).assistant(text, thinking=text).entries)
    child = replace(child, header=child.header.model_copy(update={"id": text}))
    above = Story().user("go").tool("task", "found")
    above.add(Subagent(child=text, call_id="", agent=text, title=text))
    shown = Page(
        write_html(replace(original(above.entries), children=(child,))).data.decode()
    )
    assert len(shown.scripts) == 1
    assert len(shown.ids) == len(set(shown.ids)) == 5
    assert all(link.startswith(("#e", "https://evil.example")) for link in shown.links)


@given(
    st.text(alphabet=st.sampled_from("<>&\"'`*_[]()!#-=| \nabsx:/\\~1."), max_size=80)
)
@settings(max_examples=examples(200))
def test_markdown_and_code_of_any_kind_give_balanced_html(text: str) -> None:
    Page(f"<div>{markdown(text)}</div>")
    for language in ("python", "html", "json", "diff", "nonsense"):
        shown = Page(f"<pre>{code(text, language)}</pre>").text
        assert shown.strip("\n") == text.strip("\n")


def test_its_policy_forbids_everything_but_its_own_script_styles_and_pictures() -> None:
    shown = page(shop().entries)
    (script,) = shown.scripts
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rules = dict(rule.split(" ", 1) for rule in shown.policy.split("; "))
    assert rules == {
        "default-src": "'none'",
        "style-src": "'unsafe-inline'",
        "img-src": "data:",
        "script-src": f"'sha256-{digest}'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_nothing_in_it_points_elsewhere_but_links_of_the_text() -> None:
    text = write_html(
        original(
            history().user("hi").assistant("see <https://a.example/x?y=1&z=2>").entries
        )
    ).data.decode()
    assert re.findall(r"(?:https?:)?//[\w.]+", text.replace("// ", "")) == [
        "https://a.example",
        "https://a.example",
    ]
    assert Page(text).links[-1] == "https://a.example/x?y=1&z=2"
    assert "url(" not in text
    assert "@import" not in text


def test_each_entry_shows_its_fate_by_letter_and_gutter_and_can_be_linked_to() -> None:
    story = shop()
    text = write_html(original(story.entries)).data.decode()
    shown = Page(text)
    assert len(set(shown.ids)) == len(shown.ids)
    projection = story.projection()
    found = re.findall(r'<div class="entry \w+ (\w+)" id="e(\d+)">', text)
    fates = {int(index): fate for fate, index in found}
    assert {"live", "clipped", "hidden", "summarised", "dropped"} <= set(fates.values())
    for index, fate in fates.items():
        assert projection.fate(index).kind == fate
    assert re.search(
        r'id="e2"><div class="gutter"[^>]*><a href="#e2">2</a><b>L</b><span title="pinned">',
        text,
    )


def test_code_and_diffs_have_colours() -> None:
    story = Story().user("go").assistant("```python\ndef f(): return 'x'  # why\n```")
    story.tool("edit", "ok", path="a.py", diff="@@ -1 +1 @@\n-old\n+new\n")
    text = write_html(original(story.entries)).data.decode()
    assert '<span class="k">def</span>' in text
    assert '<span class="c1"># why</span>' in text
    assert '<span class="gd">-old</span>\n<span class="gi">+new</span>' in text


def test_pictures_of_pixels_are_in_the_page_and_others_are_named() -> None:
    png = ImagePart(media_type="image/png", data="aW1hZ2U=", width=10, height=5)
    svg = ImagePart(media_type="image/svg+xml", data="PHN2Zz4=")
    broken = ImagePart(media_type="image/png", data='"><script>')
    message = UserMessage(index=0, parts=(*text_parts("look"), png, svg, broken))
    shown = page([message])
    assert shown.pictures == ["data:image/png;base64,aW1hZ2U="]
    assert shown.text.count("image: ") == 3


def test_a_compaction_is_a_line_that_opens_to_its_summary() -> None:
    text = write_html(original(shop().entries)).data.decode()
    assert re.search(
        r"<summary>[^<]*116\.2k → 27\.4k · \d+ entries compacted</summary>", text
    )
    assert "<h2>Goal</h2>" in text


@needs_recorded
def test_recorded_sessions_become_sound_pages() -> None:
    for path in compactable_recordings():
        if path.stat().st_size < 400_000:
            found = read_foreign(path)
            shown = Page(
                write_html(
                    Original(found.header, found.entries, project(found.entries))
                ).data.decode()
            )
            assert len(shown.scripts) == 1
            assert all(
                link.startswith(("#e", "http", "mailto:")) for link in shown.links
            )
