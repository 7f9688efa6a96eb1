"""A command line taken apart by the grammar of bash: its simple commands, their words, what it writes.

Rules and approvals go by this and never by text. What the grammar cannot read, or may read otherwise than
bash, is not read at all: then the user is asked. Pure; the parser is imported with the first command.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

LONGEST = 4_000
"""Characters that are looked at; a longer command is a program of its own, and the parser takes time by the
square of what it cannot read: a third of a second for these."""
_DEEPEST = 40
"""Levels of nesting; nobody reads more."""

Kind = Literal["literal", "pattern", "output", "unclear"]


class Word(NamedTuple):
    """A word of a command, or what else the shell is given.

    literal: passed on as it is; pattern: its text is known, and the shell may make others of it; output: what
    commands among those read print, in quotes; unclear: anything else.
    """

    text: str
    kind: Kind = "literal"


class SimpleCommand(NamedTuple):
    """One program, or builtin, that is run."""

    words: tuple[Word, ...]
    is_fed: bool
    """Whether it is given what others write, or a file, to read."""


class Reading(NamedTuple):
    """All that a command line says."""

    commands: Sequence[SimpleCommand]
    others: Sequence[Word]
    """Words that are no command's: assigned values, files that are read, texts given as input."""
    writes: Sequence[str]
    """Files that redirections write."""
    is_plain: bool
    """Whether the commands, joined, are all there is to it: no variable, function, loop over words,
    here-document or word that turns into others."""
    is_bare: bool
    """Whether it is one simple command on one line, and nothing else at all."""


class _Unread(Exception):
    """The grammar, or we, may see something else in it than bash does."""


_JOINTS = frozenset(
    re.findall(
        r"\S+",
        """
        program list pipeline subshell compound_statement negated_command redirected_statement if_statement
        elif_clause else_clause while_statement do_group
        ; & && || | |& ( ) { } ! if then elif else fi while until do done
        """,
    )
)
"""What joins commands, and changes nothing of what each of them does."""
_WORDS = frozenset(
    re.findall(
        r"\S+",
        """
        word number string raw_string concatenation simple_expansion expansion command_substitution
        arithmetic_expansion ansi_c_string translated_string brace_expression extglob_pattern regex
        """,
    )
)
_NAMES = frozenset(("variable_name", "test_operator", "heredoc_start", "heredoc_end"))
"""Leads nowhere by itself."""
_WRITE = frozenset((">", ">>", ">|", "&>", "&>>", ">&"))
_COPIES = frozenset((">&", "<&"))
"""Redirections to an open file, where a number follows."""
_NOWHERE = "/dev/null"
_LITERAL = re.compile(r"(?:[^\W_]|[-_./:,+%^@=])+")
"""Outside of quotes, what the shell makes nothing else of."""
_PATTERN = re.compile(r"(?:[^\W_]|[-_./:,+%^@=*?\[\]~!#]|\\[^\n])+")
"""And what it turns into the names of files, or passes on without its backslash."""
_ESCAPED = re.compile(r"\\(.)")
_QUOTED = re.compile(r'[^$`\\"]*')
_GAP = re.compile(r"(?:[ \t\n]|\\\n)*")


@cache
def _parser() -> "Parser | None":
    """None where it is not installed: no command can be read then."""
    try:
        import tree_sitter_bash
        from tree_sitter import Language, Parser
    except ImportError:
        return None
    return Parser(Language(tree_sitter_bash.language()))


@lru_cache(64)
def read(command: str) -> Reading | None:
    """What a command says; None where that is not certain."""
    legible = all(char.isprintable() or char in "\n\t" for char in command)
    parser = _parser() if legible and len(command) <= LONGEST else None
    if parser is None:
        return None
    data = command.encode()
    tree = parser.parse(data)
    if tree.root_node.has_error:
        return None
    reader = _Reader(data)
    try:
        reader.demand_all_seen(tree.root_node)
        reader.take(tree.root_node)
    except _Unread:
        return None
    only = [each.type for each in tree.root_node.children] == ["command"] and len(reader.commands) == 1
    is_bare = only and reader.is_plain and not reader.has_redirects and "\n" not in command
    return Reading(reader.commands, reader.others, reader.writes, reader.is_plain, is_bare)


class _Reader:
    """Walks the tree of one command line."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.commands: list[SimpleCommand] = []
        self.others: list[Word] = []
        self.writes: list[str] = []
        self.is_plain = True
        self.has_redirects = False
        self._depth = 0

    def demand_all_seen(self, root: "Node") -> None:
        """Raises _Unread where something between two signs of the tree is no blank, or none is and bash makes
        one word of both: a line continued in the middle of a word is two words to the grammar."""
        at, before = 0, ""
        for leaf in _leaves(root):
            gap = self._data[at : leaf.start_byte].decode()
            continued = gap.count("\\")
            if not _GAP.fullmatch(gap) or (continued and gap.count("\n") > continued):
                raise _Unread
            if not gap.replace("\\\n", "") and (gap or before == "!" or (at and leaf.type == "comment")):
                raise _Unread
            at, before = leaf.end_byte, leaf.type
        if not _GAP.fullmatch(self._data[at:].decode()):
            raise _Unread

    def take(self, node: "Node", is_fed: bool = False) -> None:
        """Read a statement, and what is in it; `is_fed`: its commands read what others write."""
        with self._deeper():
            match node.type:
                case "command":
                    self._take_command(node, [], is_fed)
                case "redirected_statement":
                    self._take_redirected(node, is_fed)
                case "pipeline":
                    for child in node.children:
                        self.take(child, is_fed)
                        is_fed = is_fed or child.type in ("|", "|&")
                case kind if kind in _JOINTS:
                    for child in node.children:
                        self.take(child, is_fed)
                case _:
                    self._take_other(node, is_fed)

    def _take_other(self, node: "Node", is_fed: bool) -> None:
        """Read what is neither a command nor joins some."""
        kind = node.type
        if kind == "comment":
            return
        self.is_plain = False
        if kind == "heredoc_body":
            self.others += [Word(each, "pattern") for each in self._text(node).split()]
        elif kind in ("herestring_redirect", "file_redirect"):
            self.others += self._redirected(node)[0]
        elif kind in _WORDS or (node.is_named and not node.children and kind not in _NAMES):
            self.others.append(self._word(node))
        else:
            for child in node.children:
                self.take(child, is_fed)

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _Unread
        yield
        self._depth -= 1

    def _take_redirected(self, node: "Node", is_fed: bool) -> None:
        body = node.child_by_field_name("body")
        extra: list[Word] = []
        for child in node.children:
            if child.type in ("file_redirect", "herestring_redirect"):
                found, feeds = self._redirected(child)
                extra, is_fed = extra + found, is_fed or feeds
            elif child != body:
                self.take(child, is_fed)
        if body is None:
            self.is_plain = False
        elif body.type == "command":
            self._take_command(body, extra, is_fed)
            return
        else:
            self.take(body, is_fed)
        self.others += extra
        self.is_plain = self.is_plain and not extra

    def _redirected(self, node: "Node") -> tuple[list[Word], bool]:
        """The words that follow it, which are the command's (the grammar takes `> a -b` for two targets), and
        whether it gives the command something to read."""
        self.has_redirects = True
        first = node.children[0]
        before = self._data[max(node.start_byte - 1, 0) : node.start_byte].decode(errors="replace")
        if first.type == "file_descriptor":
            is_its_own = self._text(first).isdecimal() and not before.strip("\n\t ;&|(){}")
        else:
            is_its_own = not before.isdecimal()
        signs = [child.type for child in node.children if not child.is_named]
        words = [child for child in node.children if child.is_named and child.type != "file_descriptor"]
        if not is_its_own or len(signs) != 1 or not _is_apart(words):
            raise _Unread  # to the grammar, `-x2>a` redirects a file named `-x2`
        if signs[0] in ("<&-", ">&-"):
            return [self._word(each) for each in words], False
        target, *rest = [self._word(each) for each in words] or [Word("", "unclear")]
        self.is_plain = self.is_plain and target.kind == "literal"
        if signs[0] in _COPIES and target.kind == "literal" and target.text.isdecimal():
            return rest, signs[0] == "<&"
        if signs[0] in _COPIES and target.text[:1] in "-0123456789":
            raise _Unread  # bash takes `>& -x` for `>&-` and a word
        if target.kind == "literal" and target.text == _NOWHERE:
            return rest, False
        if signs[0] in _WRITE and target.kind == "literal":
            self.writes.append(target.text)
        else:
            self.others.append(target)
            self.is_plain = self.is_plain and signs[0] in ("<", "<<<")
        return rest, signs[0] in ("<", "<<<", "<&")

    def _take_command(self, node: "Node", extra: list[Word], is_fed: bool) -> None:
        words: list[Word] = []
        if not _is_apart(node.children):
            raise _Unread
        for child in node.children:
            match child.type:
                case "variable_assignment":
                    self.take(child)
                case "file_redirect" | "herestring_redirect":
                    found, feeds = self._redirected(child)
                    extra, is_fed = [*extra, *found], is_fed or feeds
                case "process_substitution":
                    is_fed = True  # by what it reads there, or in its arguments: a name of a pipe
                    words.append(Word("-"))
                    for inner in child.named_children:
                        self.take(inner, child.children[0].type == ">(")
                case "command_name":
                    words.append(self._word(child.children[0]))
                case _:
                    words.append(self._word(child))
        if not words:
            raise _Unread
        self.commands.append(SimpleCommand((*words, *extra), is_fed))

    def _word(self, node: "Node") -> Word:
        text = self._text(node)
        match node.type:
            case "word" | "number" if _LITERAL.fullmatch(text):
                return Word(text)
            case "word" | "number" if _PATTERN.fullmatch(text):
                return Word(_ESCAPED.sub(r"\1", text), "pattern")
            case "raw_string":
                return Word(text[1:-1])
            case "string" if _QUOTED.fullmatch(text, 1, len(text) - 1):
                return Word(text[1:-1])
            case "string" if self._is_output(node):
                for each in node.named_children:
                    self._commands_in(each)
                return Word("", "output")
            case "concatenation" if _is_joined(node.children):
                parts = [self._word(child) for child in node.children]
                if all(part.kind == "literal" for part in parts):
                    return Word("".join(part.text for part in parts))
                if all(part.kind in ("literal", "pattern") for part in parts):
                    return Word("".join(part.text for part in parts), "pattern")
            case _:
                self._commands_in(node)
        return Word(text, "unclear")

    def _is_output(self, node: "Node") -> bool:
        """Whether what is in quotes is only what commands print, and plain text."""
        return all(
            self._text(child).startswith("$(")
            if child.type == "command_substitution"
            else child.type == "string_content" and _QUOTED.fullmatch(self._text(child))
            for child in node.named_children
        )

    def _commands_in(self, node: "Node") -> None:
        """Read the commands within a word: where they lead counts, whatever becomes of the word."""
        with self._deeper():
            for child in node.named_children:
                if node.type in ("command_substitution", "process_substitution"):
                    self.take(child)
                else:
                    self._commands_in(child)

    def _text(self, node: "Node") -> str:
        return self._data[node.start_byte : node.end_byte].decode()


def _leaves(root: "Node") -> Iterator["Node"]:
    pending = [root]
    while pending:
        node = pending.pop()
        if node.children:
            pending += reversed(node.children)
        else:
            yield node


def _is_apart(nodes: Sequence["Node"]) -> bool:
    """Whether there is something between each two words."""
    return all(before.end_byte < after.start_byte for before, after in pairwise(nodes))


def _is_joined(nodes: Sequence["Node"]) -> bool:
    return all(before.end_byte == after.start_byte for before, after in pairwise(nodes))
