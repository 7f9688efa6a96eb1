"""Shell command lines: the commands of a line that do something, told from those that only look."""

import re
from collections.abc import Iterator

from .facts import LONGEST

# One piece of a shell word: quotes, escapes and substitutions are consumed whole, so that what they hold
# divides nothing. Their length is bounded, as an unclosed one is looked for again at the next sign.
_PIECE = (
    r"(?:\"(?:[^\"\\]|\\.){0,4000}+\"|'[^']{0,4000}+'|\$\((?:[^()]|\([^()]{0,400}+\)){0,400}+\)|\\.|"
    r"&(?=>)|(?<=[<>])&|[^\s\"'\\&|;\n]|[\"'](?=\S))"
)
_COMMAND = re.compile(rf"{_PIECE}++(?:[ \t]++{_PIECE}++)*+", re.DOTALL)
_BODY = re.compile(r"<<-?[ \t]{0,8}[\"']?[A-Za-z_]")
"""Where a here-document begins: what follows is no command."""
_CONTINUED = re.compile(r"\\\n[ \t]*+")
_SETTINGS = re.compile(rf"(?:[A-Za-z_]\w{{0,80}}+={_PIECE}*+(?:[ \t]++|\Z))*+", re.DOTALL)
_OPENING = re.compile(
    r"(?:(?:[({!]|do|then|else|time|sudo|[^\s()\"'$=]{1,40}+\)|(?:ba|z)?sh[ \t]++-l?c(?=[ \t]++[^\"']))"
    r"[ \t]++)++"
)
"""What stands before a command within a loop, a group, a case, or in a list that begins `bash -lc`."""
_REDIRECTED = re.compile(
    r"(?:[ \t]{1,8}(?:\d?>>?[ \t]{0,8}(?:&\d|/dev/null)|&>[ \t]{0,8}/dev/null|[)}]))++\Z"
)

_LOOKS = re.compile(
    r"(?:\[|\}|:|ls|ll|find|fd|cat|bat|grep|rg|ag|egrep|head|tail|sed(?![ ]+(?:-\w*i|--in-place))|awk|wc|pwd|"
    r"cd|echo|printf|tree|which|type|command[ ]+-v|stat|file|du|df|sort|uniq|cut|tr|nl|less|diff|cmp|test|"
    r"true|false|sleep|date|set|export|source|exit|xargs|tee|jq|column|basename|dirname|realpath|env|"
    r"printenv|ps|whoami|uname|mkdir|touch|for|while|if|elif|fi|done|case|esac|read|break|continue|"
    r"git[ ]+(?:-C[ ]+\S++[ ]+|--no-pager[ ]+)*+(?:add|commit|status|log|diff|show|branch|blame|remote|"
    r"ls-files|rev-parse|merge-base|grep|stash[ ]+(?:show|list))|"
    r"docker[ ]+(?:ps|logs|images|inspect)|kubectl[ ]+(?:get|describe|logs)|"
    r"gh[ ]+\w++[ ]+(?:view|list|status|checks|diff)|python3?[ ]+-|node[ ]+-)(?![\w./-])"
)
"""What changes nothing, filters, or is only the frame of a line; and `git commit`, `mkdir` and the like,
whose effect is all there is to know of them."""


def script(line: str) -> str:
    """A command line without the here-document it feeds to a command, continued lines joined."""
    body = _BODY.search(line)
    return joined(line[: body.start()] if body else line)


def joined(text: str) -> str:
    """The text with continued lines (`\\` at the end) as one."""
    return _CONTINUED.sub(" ", text)


def deeds(line: str) -> Iterator[str]:
    """The commands of a shell line that do something, as they stand there: `npm test` of
    `cd web && npm test 2>&1 | tail -5`.

    Of a command that spans lines, its first line.
    """
    for found in _COMMAND.finditer(script(line)):
        command = _bare(found[0])
        settings = _SETTINGS.match(command)
        plain = command[settings.end() if settings else 0 :]
        if plain and not plain.startswith("#") and not _LOOKS.match(plain):
            yield command


def _bare(command: str) -> str:
    """A command without what opens and closes a group around it; nothing where it is torn out of one."""
    opening = _OPENING.match(command)
    command = command[opening.end() if opening else 0 :].split("\n", 1)[0].lstrip("(")
    command = _REDIRECTED.sub("", command[:LONGEST]).strip()
    opened, closed = command.count("("), command.count(")")
    if opened > closed:
        return ""
    return command.rstrip(")") if closed > opened else command
