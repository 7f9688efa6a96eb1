#!/bin/sh
# tree-sitter-bash 0.25.1 (tree-sitter 0.26.0) has no node for the argument `-` before a here-document, and
# reports no error: a program that reads commands off the tree sees `cat` without its argument. Before a file,
# a pipe or the end of the line, `-` is a node of the type word.
#
# Seen on 28 November 2026:
#   cat - <<EOF     error: False, words: ['cat']
#   cat - x <<EOF   error: False, words: ['cat', '-', 'x']
#   cat - <file     error: False, words: ['cat', '-', 'file']
#
# Foldline's own check for text without a node refuses such a line; bans of agents' files take the `-` out first.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check tree-sitter==0.26.0 tree-sitter-bash==0.25.1
"$folder/venv/bin/python" - <<'END'
import tree_sitter_bash
from tree_sitter import Language, Parser

parser = Parser(Language(tree_sitter_bash.language()))


def words(node):
    if node.type == "word":
        return [node.text.decode()]
    return [word for child in node.children for word in words(child)]


expected = {
    "cat - <<EOF\na\nEOF\n": ["cat"],
    "cat - x <<EOF\na\nEOF\n": ["cat", "-", "x"],
    "cat - <file\n": ["cat", "-", "file"],
}
for text, wanted in expected.items():
    root = parser.parse(text.encode()).root_node
    print(f"{text.splitlines()[0]:15} error: {root.has_error}, words: {words(root)}")
    assert not root.has_error and words(root) == wanted, "the behaviour has changed"
END
