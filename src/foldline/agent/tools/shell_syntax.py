"""Parses a command line with a bash grammar into simple commands, their words, and written files.

Rules and approvals are based on the parsed command, never on its text. If the grammar cannot parse a command,
or may parse it differently from bash, the user is asked for approval. All functions are pure. The parser is
imported when the first command is parsed.
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
"""Maximum length of a command, in characters.

Longer commands are not parsed. With syntax errors, the parser takes quadratic time: a third of a second for
this length.
"""
_DEEPEST = 40
"""Maximum nesting depth. Commands with deeper nesting are not parsed."""

WordKind = Literal["literal", "pattern", "output", "unclear"]


class Word(NamedTuple):
    """A word of a command, or another word of the command line.

    The shell passes a `literal` word on unchanged, and may expand a `pattern`. An `output` is a quoted
    command substitution whose commands have been read. Any other word is `unclear`.
    """

    text: str
    kind: WordKind = "literal"


class SimpleCommand(NamedTuple):
    """One call of a program or builtin."""

    words: tuple[Word, ...]
    is_fed: bool
    """Whether the command's input is a file or the output of another command."""


class Reading(NamedTuple):
    """A parsed command line."""

    commands: Sequence[SimpleCommand]
    others: Sequence[Word]
    """Words outside of commands: assigned values, files to read, and text passed as input."""
    writes: Sequence[str]
    """Files to which output is redirected."""
    is_plain: bool
    """Whether the command line consists only of commands and operators.

    It then has no variables, functions, loops over words, here-documents or expanded words."""


class _Unread(Exception):
    """Raised if bash may read the command differently from the grammar."""


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
"""Operators and statements that do not change the meaning of the commands in them."""
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
"""Leaves of the syntax tree that are not words."""
_WRITE = frozenset((">", ">>", ">|", "&>", "&>>", ">&"))
_COPIES = frozenset((">&", "<&"))
"""Operators that redirect to a file descriptor if a number follows."""
_NOWHERE = "/dev/null"
_LITERAL = re.compile(r"(?:[^\W_]|[-_./:,+%^@=])+")
"""Matches unquoted text that the shell does not expand."""
_PATTERN = re.compile(r"(?:[^\W_]|[-_./:,+%^@=*?\[\]~!#]|\\[^\n])+")
"""Matches unquoted text that the shell unescapes, or expands only to file names."""
_ESCAPED = re.compile(r"\\(.)")
_QUOTED = re.compile(r'[^$`\\"]*')
_GAP = re.compile(r"(?:[ \t\n]|\\\n)*")


@cache
def _parser() -> "Parser | None":
    """Return the parser, if it is installed.

    Without it, no command can be parsed.
    """
    try:
        import tree_sitter_bash
        from tree_sitter import Language, Parser
    except ImportError:
        return None
    return Parser(Language(tree_sitter_bash.language()))


@lru_cache(64)
def read(command: str) -> Reading | None:
    """Parse a command line, if its meaning is certain."""
    legible = all(char.isprintable() or char in "\n\t" for char in command)
    parser = _parser() if legible and len(command) <= LONGEST else None
    if parser is None:
        return None
    data = command.encode()
    tree = parser.parse(data)
    if tree.root_node.has_error:
        return None
    walker = _TreeWalker(data)
    try:
        walker.check_gaps(tree.root_node)
        walker.walk(tree.root_node)
    except _Unread:
        return None
    return Reading(walker.commands, walker.others, walker.writes, walker.is_plain)


class _TreeWalker:
    """Collects commands and words from the syntax tree of a command line."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.commands: list[SimpleCommand] = []
        self.others: list[Word] = []
        self.writes: list[str] = []
        self.is_plain = True
        self._depth = 0

    def check_gaps(self, root: "Node") -> None:
        """Check that bash splits the command line at the same positions as the grammar.

        For example, the grammar sees two words if a line is continued in the middle of a word.

        Raises:
            _Unread: bash may split the command line differently.
        """
        position = 0
        before = ""
        for leaf in _leaves(root):
            gap = self._data[position : leaf.start_byte].decode()
            continued = gap.count("\\")
            if not _GAP.fullmatch(gap) or (continued and gap.count("\n") > continued):
                raise _Unread
            is_joined = not gap.replace("\\\n", "")
            if is_joined and (
                gap or before == "!" or (position and leaf.type == "comment")
            ):
                raise _Unread
            position = leaf.end_byte
            before = leaf.type
        if not _GAP.fullmatch(self._data[position:].decode()):
            raise _Unread

    def walk(self, node: "Node", is_fed: bool = False) -> None:
        """Read a statement and its parts.

        Args:
            is_fed: whether the input of the statement's commands is the output of other commands.
        """
        with self._deeper():
            match node.type:
                case "command":
                    self._add_command(node, [], is_fed)
                case "redirected_statement":
                    self._walk_redirected(node, is_fed)
                case "pipeline":
                    for child in node.children:
                        self.walk(child, is_fed)
                        is_fed = is_fed or child.type in ("|", "|&")
                case kind if kind in _JOINTS:
                    self._walk_children(node, is_fed)
                case "comment":
                    pass
                case _:
                    self._walk_other(node, is_fed)

    def _walk_children(self, node: "Node", is_fed: bool = False) -> None:
        for child in node.children:
            self.walk(child, is_fed)

    def _walk_other(self, node: "Node", is_fed: bool) -> None:
        """Read a node that is not allowed in plain command lines."""
        self.is_plain = False
        kind = node.type
        if kind == "heredoc_body":
            self.others += [Word(word, "pattern") for word in self._text(node).split()]
        elif kind in ("herestring_redirect", "file_redirect"):
            self.others += self._redirect(node)[0]
        elif kind in _WORDS or (
            node.is_named and not node.children and kind not in _NAMES
        ):
            self.others.append(self._word(node))
        else:
            self._walk_children(node, is_fed)

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _Unread
        yield
        self._depth -= 1

    def _walk_redirected(self, node: "Node", is_fed: bool) -> None:
        body = node.child_by_field_name("body")
        extra: list[Word] = []
        for child in node.children:
            if child.type in ("file_redirect", "herestring_redirect"):
                words, feeds = self._redirect(child)
                extra += words
                is_fed = is_fed or feeds
            elif child != body:
                self.walk(child, is_fed)
        if body is not None and body.type == "command":
            self._add_command(body, extra, is_fed)
            return
        if body is not None:
            self.walk(body, is_fed)
        self.others += extra
        if body is None or extra:
            self.is_plain = False

    def _redirect(self, node: "Node") -> tuple[list[Word], bool]:
        """Read a redirection.

        Returns the words after the redirection's target, and whether the redirection provides input.

        These words are arguments of the command: the grammar reads `> a -b` as a redirection with two
        targets.
        """
        first = node.children[0]
        before = self._data[max(node.start_byte - 1, 0) : node.start_byte].decode(
            errors="replace"
        )
        if first.type == "file_descriptor":
            is_separate = self._text(first).isdecimal() and not before.strip(
                "\n\t ;&|(){}"
            )
        else:
            is_separate = not before.isdecimal()
        operators = [child.type for child in node.children if not child.is_named]
        nodes = [
            child
            for child in node.children
            if child.is_named and child.type != "file_descriptor"
        ]
        if not is_separate or len(operators) != 1 or not _is_apart(nodes):
            raise _Unread  # the grammar reads `-x2` in `-x2>a` as a file descriptor
        operator = operators[0]
        words = [self._word(child) for child in nodes]
        if operator in ("<&-", ">&-"):
            return words, False
        target = words.pop(0) if words else Word("", "unclear")
        is_literal = target.kind == "literal"
        if not is_literal:
            self.is_plain = False
        if operator in _COPIES and is_literal and target.text.isdecimal():
            return words, operator == "<&"
        if operator in _COPIES and target.text[:1] in "-0123456789":
            raise _Unread  # bash reads `>& -x` as `>&-` and a word
        if is_literal and target.text == _NOWHERE:
            return words, False
        if operator in _WRITE and is_literal:
            self.writes.append(target.text)
        else:
            self.others.append(target)
            if operator not in ("<", "<<<"):
                self.is_plain = False
        return words, operator in ("<", "<<<", "<&")

    def _add_command(self, node: "Node", extra: list[Word], is_fed: bool) -> None:
        words: list[Word] = []
        if not _is_apart(node.children):
            raise _Unread
        for child in node.children:
            match child.type:
                case "variable_assignment":
                    self.walk(child)
                case "file_redirect" | "herestring_redirect":
                    following, feeds = self._redirect(child)
                    extra += following
                    is_fed = is_fed or feeds
                case "process_substitution":
                    is_fed = True  # the argument is the name of a pipe
                    words.append(Word("-"))
                    for inner in child.named_children:
                        self.walk(inner, child.children[0].type == ">(")
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
                for child in node.named_children:
                    self._commands_in(child)
                return Word("", "output")
            case "concatenation" if _is_joined(node.children):
                parts = [self._word(child) for child in node.children]
                joined = "".join(part.text for part in parts)
                kinds = {part.kind for part in parts}
                if kinds <= {"literal"}:
                    return Word(joined)
                if kinds <= {"literal", "pattern"}:
                    return Word(joined, "pattern")
            case _:
                self._commands_in(node)
        return Word(text, "unclear")

    def _is_output(self, node: "Node") -> bool:
        """Return whether a string consists of command substitutions and plain text."""
        for child in node.named_children:
            text = self._text(child)
            if child.type == "command_substitution":
                is_known = text.startswith("$(")
            else:
                is_known = (
                    child.type == "string_content"
                    and _QUOTED.fullmatch(text) is not None
                )
            if not is_known:
                return False
        return True

    def _commands_in(self, node: "Node") -> None:
        """Collect the commands nested in a word, for example in `$(…)`."""
        with self._deeper():
            for child in node.named_children:
                if node.type in ("command_substitution", "process_substitution"):
                    self.walk(child)
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
    """Return whether every pair of adjacent nodes is separated by a gap."""
    return all(before.end_byte < after.start_byte for before, after in pairwise(nodes))


def _is_joined(nodes: Sequence["Node"]) -> bool:
    return all(before.end_byte == after.start_byte for before, after in pairwise(nodes))
