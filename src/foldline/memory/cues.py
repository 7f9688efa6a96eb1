"""Cue words by language: signs of a decision, an agreement, a rule, a failure or a command.

This module contains all tables of words that this package searches for. Each line of a table is one cue, as a
regular expression. English cues match whole words. Other cues match anywhere.
"""

import re

from foldline.text.patterns import lazy_pattern

WIDE = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
"""Characters of scripts without spaces between words, for a regex character class."""


def words_of(table: str) -> frozenset[str]:
    """Return the words in a table."""
    return frozenset(table.split())


def _any_of(*tables: str) -> str:
    lines = "\n".join(tables).split("\n")
    return "|".join(line.strip() for line in lines if line.strip())


def _cues(
    english: str,
    chinese: str = "",
    japanese: str = "",
    korean: str = "",
) -> re.Pattern[str]:
    whole_words = rf"\b(?:{_any_of(english)})\b"
    return lazy_pattern(
        _any_of(whole_words, chinese, japanese, korean),
        re.IGNORECASE,
    )


# -- constraints -----------------------------------------------------------------------------------

CONSTRAINT = _cues(
    english="""
        must
        never
        only
        always
        do not
        don['’]t
        dont
        keep
        avoid
        ensure
        make sure
        should not
        shouldn['’]t
        mustn['’]t
        no longer
        at most
        at least
        cannot
        prefers?
        without (?:changing|touching|breaking)
    """,
    chinese="""
        必须|必需|务必|一定要
        不要|不得|不能|不许|不可以|禁止|严禁|切勿
        只能|只允许|仅限
        始终|总是|保持
        避免|优先
    """,
    japanese="""
        してはいけない|しないで|してはならない
        なければならない|必ず
        禁止|常に|だけに
    """,
    korean=r"""
        하지\s?마|하면\s안
        해야\s?(?:한다|합니다|해)
        반드시|절대|항상|금지|만\s사용
    """,
)
"""Matches a sentence that gives a command or forbids something."""

PROHIBITION = lazy_pattern(
    r"(?:never|do not|don['’]t|no|must not|不要|不得|不能|禁止|切勿|绝不)(?![\w])",
    re.IGNORECASE,
)
"""Matches the beginning of a sentence that forbids something."""

RULE_LABELS = words_of(
    """
    rule constraint requirement preference important policy
    规则 约束 要求 偏好 限制 注意 重要
    """
)
GOAL_LABELS = words_of(
    """
    goal task objective
    目标 任务
    """
)
FACT_LABELS = words_of(
    """
    fact note fyi reminder remember context
    事实 备注 背景 记住
    """
)
"""Labels at the start of a line, such as `Note: …`, in lower case and singular."""

UNABLE = _cues(
    english="i (?:don['’]?t|do not|can['’]?t|cannot|can not)", chinese="我(?:不|没)"
)
"""Matches users' statements about themselves. For example, `I can't see it` is not a rule."""

# -- decisions -------------------------------------------------------------------------------------

_ANY_DECISION = """
    decided
    decision
    chose
    instead of
    rather than
    (?:we|i)(?:'ll| will) (?:use|keep)
    going with
    trade-?off
    root cause
    turns out
    caused by
    conclusion
"""
_ANY_DECISION_CHINESE = "决定|改为|改用|采用|结论"

DIGEST_DECISION = _cues(
    english=rf"""
        {_ANY_DECISION}
        decide
        opted
        the cause
        turn out
        go with
        let['’]s (?:use|go with|keep)
        (?:best|cleanest|simplest|right|chosen) approach
        found that
        the (?:fix|problem|issue|bug) (?:is|was)
    """,
    chinese=rf"""
        {_ANY_DECISION_CHINESE}
        选用|选定
        根本原因|原因是
        (?:最终|推荐|选择).{{0,4}}方案
    """,
    japanese="結果是|発見|原因は|決め",
    korean="결정|원인",
)
"""Matches a sentence in which the assistant or the user decides something or states a cause."""

UNIT_DECISION = _cues(
    english=rf"""
        {_ANY_DECISION}
        (?:we|i)’ll (?:use|keep)
        (?:we|i)(?:['’]ll| will) go with
        turned out
        concluded
        the (?:real )?(?:fix|cause|problem|issue|bug|reason) (?:is|was)
    """,
    chinese=rf"""
        {_ANY_DECISION_CHINESE}
        选择|方案|原因
    """,
    japanese="問題は|決め|結論",
    korean="결정|원인|결론",
)
"""Matches a decision, for judging the importance of a unit.

The scores for decisions were tuned with these words.
"""

EXPLANATION = _cues(
    english="because", chinese="因为|由于", japanese="ので", korean="때문"
)
"""Matches an explanation, which is a weaker sign of a decision."""

REASON = _cues(
    english="""
        because
        since
        so that
        therefore
        as it
        due to
        otherwise
        which means
        to avoid
        caused by
        (?:cause|problem|issue|bug|reason) (?:is|was)
    """,
    chinese="因为|由于|所以|因此|以免|避免|否则|原因",
    japanese="ため|ので",
    korean="때문",
)
"""Matches the reason for a decision."""

NARRATION = lazy_pattern(
    r"(?:now|first|next|actually|ok(?:ay)?|so|wait)?[,\s]*"
    r"(?:let me|let['’]s see|i['’](?:m|ll)\b|i (?:am|will|call)\b)|"
    r"让我|我来|我调用|"
    r"\||\*\*?[^*]*\*\*?\W*\Z",
    re.IGNORECASE,
)
"""Matches announcements of the assistant's next action, table rows and headings.

None of these are decisions.
"""

NEXT_STEP = _cues(
    english="""
        next steps?
        next,
        remaining
        remains to
        still (?:need|have) to
        left to do
        follow-?ups?
        not yet
    """,
    chinese="下一步|接下来|还需要|剩下|尚未|待办",
    japanese="次に|残り|まだ",
    korean="다음|남은|아직",
)

# -- agreement -------------------------------------------------------------------------------------

AGREEING_WORDS = words_of(
    """
    a again agree agreed ahead all alright amazing and approve approved are as awesome begin
    carry confirmed cool continue correct d described discussed do done exactly excellent
    execute fine for go going good great happen i implement implementing it just k keep kk
    let lets ll lgtm like looks love m make me next nice now of ok okay okey on perfect plan
    planned please pls proceed proposed r re right roger s said say sounds start step steps
    suggested sure thank thanks that the them then these this thx to try u we with works y
    ya yeah yep yes yup both you your
    ack ja genau gerne bitte danke weiter mach
    oui d accord
    si claro vale sigue da adelante
    """
)
"""A message consisting only of these words agrees with something or asks the assistant to continue."""

_AS_PROPOSED = (
    "(?:就|请)?[按照]照?"
    "(?:你|您|这个|上面|上述|刚才|之前|计划|方案)?的?"
    "(?:说|讲|建议|方案|计划|思路|想法|提议)?的?(?:去|来)?"
    "(?:做|办|改|写|执行|进行|实现|处理)?"
)
AGREEING_PHRASES = lazy_pattern(
    _any_of(
        rf"""
        好的|好吧|好啊|好|可以|行吧|行|嗯+|是的|是|对的|对|没错|没问题|请?继续
        接着(?:做|来|说|写|改)?
        {_AS_PROPOSED}
        就?(?:这样|这么|那样)(?:做|办|来|改|定)?
        同意|确认|开始|动手|做|去做|来|执行|谢谢|辛苦了?|收到|明白了?
        了解|不错|完美|棒|赞|请|吧|啊|呢|了|的|那|就|下一步
        """,
        r"""
        はい|お願い(?:します|いたします)?|続けて(?:ください)?|続き
        それで(?:いい|良い)?です?|進めて(?:ください)?
        了解(?:です|しました)?|ありがとう(?:ございます)?
        """,
        r"""
        네|예|응|좋아요?|좋습니다
        (?:계속|진행|그렇게)\s?(?:해\s?주세요|해\s?줘|하세요|해요?)?
        감사합니다|고마워요?|부탁(?:드립니다|드려요|해)?
        """,
    )
)
"""Matches messages that only agree or ask to continue, in Chinese, Japanese and Korean.

These are written without spaces between words.
"""

_ASSENTING_WORDS = _any_of(
    """
    ok(?:ay)?|yes|yep|yeah|sure
    go(?: on| ahead| for it)?|continue|proceed|do (?:it|that)
    all|please|thanks?(?: you)?
    great|good|perfect|fine|nice|cool|done
    lgtm|looks good|sounds good|approved?|next
    retry|try again|y
    """,
    "好的?|可以|行|对|是的?|继续|嗯|没问题|同意|谢谢|请",
    "はい|了解|続けて|ありがとう",
    "네|응|계속",
)
ASSENT = lazy_pattern(rf"(?:(?:{_ASSENTING_WORDS})(?![a-z])[\W_]*+)++", re.IGNORECASE)
"""Matches a short reply that only agrees and does not request anything new."""

ACKNOWLEDGEMENT = lazy_pattern(
    r"(?:noted|acknowledged|ok(?:ay)?|got it|understood|will do|remembered|recorded|"
    r"记住|明白|收到|好的|了解|知道)(?![a-z])",
    re.IGNORECASE,
)
"""Matches the beginning of an answer that only acknowledges something."""

POINTS_BACK = _cues(
    english="""
        option
        variant
        the (?:first|second|third|last|former|latter|other)
        that|those|these|both|either|it|above
        your (?:plan|proposal|suggestion|idea)
        as (?:you|we) (?:said|discussed)
    """,
    chinese=r"""
        方案|第[一二三四五\d]
        [这那](?:个|些|样|里)
        上面|刚才|你说|你的
    """,
    japanese="それ|その|案",
    korean=r"그것|그\s|방안",
)
"""Matches words that refer to the previous message."""

# -- tools -----------------------------------------------------------------------------------------

RUNS_COMMANDS = lazy_pattern(r"bash|shell|exec|command|terminal", re.IGNORECASE)
"""Matches the name of a tool that runs commands."""
RUNS = lazy_pattern(rf"{RUNS_COMMANDS.pattern}|run", re.IGNORECASE)
"""Matches the name of a tool that runs something, such as `bash`, `run_tests` or `task_run`."""
CHANGES_FILES = lazy_pattern(
    r"write|edit|create|replace|patch|insert|delete|rename|move",
    re.IGNORECASE,
)
KEEPS_LISTS = lazy_pattern(r"todo|task|plan", re.IGNORECASE)

PROGRAMS = words_of(
    """
    alembic apt bash black brew bun cargo cat cd chmod cmake cp curl deno docker find git go gradle
    grep jest kubectl ls make mkdir mv mypy node npm npx pip pip3 pnpm poetry psql pyright pytest
    python python3 rg rm ruff rustc sed sh ssh tar terraform touch tox tsc uv vitest wget yarn
    """
)
"""Programs used for coding. If code in backticks begins with one of these names, the code is a command."""

_GIT = (
    r"git[ ]+(?:-C[ ]+\S++[ ]+|--no-pager[ ]+)*+"
    r"(?:add|commit|status|log|diff|show|branch|blame|remote|ls-files|rev-parse|merge-base|grep|"
    r"stash[ ]+(?:show|list))"
)
_READING_COMMANDS = _any_of(
    rf"""
    \[|\}}|:
    ls|ll|find|fd|cat|bat|grep|rg|ag|egrep|head|tail
    sed(?![ ]+(?:-\w*i|--in-place))
    awk|wc|pwd|cd|echo|printf|tree|which|type
    command[ ]+-v
    stat|file|du|df|sort|uniq|cut|tr|nl|less|diff|cmp|test
    true|false|sleep|date|set|export|source|exit
    xargs|tee|jq|column|basename|dirname|realpath
    env|printenv|ps|whoami|uname
    mkdir|touch
    for|while|if|elif|fi|done|case|esac|read|break|continue
    {_GIT}
    docker[ ]+(?:ps|logs|images|inspect)
    kubectl[ ]+(?:get|describe|logs)
    gh[ ]+\w++[ ]+(?:view|list|status|checks|diff)
    python3?[ ]+-
    node[ ]+-
    """
)
READS_ONLY = lazy_pattern(rf"(?:{_READING_COMMANDS})(?![\w./-])")
"""Matches the beginning of a command that changes nothing, filters text, or belongs to a longer command.

Also matches `git commit` and `mkdir`, because their effects need not be remembered.
"""

COMMITS = lazy_pattern(r"\bgit (?:-C \S+ )?commit\b")

# -- definitions -----------------------------------------------------------------------------------

DEFINITION = lazy_pattern(
    r"\b(?:def|class|function|fn|func|interface|type|struct|enum|const|let|var|trait|impl|mod|module)\s+"
    r"([A-Za-z_]\w{0,80})"
)
"""Matches a name defined anywhere in a line of code."""

TOP_LEVEL_DEFINITION = lazy_pattern(
    r"^[ \t]{0,12}(?:(?:export|default|pub|async|static|public|private)[ ]+){0,3}"
    r"(?:def|class|function|fn|func|struct|interface|type|enum|trait)[ ]+(\w{2,80})",
    re.MULTILINE,
)
"""Matches a name defined at the beginning of a line of code."""

# -- failures --------------------------------------------------------------------------------------

FAILURE = lazy_pattern(
    _any_of(
        r"""
        \b(?:[A-Z]\w{0,60})?(?:Error|Exception)(?=: |:$)
        \bpanicked at\b
        \berror(?:\[\w{1,8}\]|\s\w{1,8}\d{1,6})?:
        \bERROR\b
        \bFAILED\b
        \bfatal:
        \bpanic:
        \bnpm ERR!
        ^E {3}
        Traceback \(most recent
        command not found
        No such file or directory
        [Pp]ermission denied
        [Ss]egmentation fault
        \bexit(?:ed with)?(?: code| status)? [1-9]\d{0,2}\b
        """,
        "错误[：:]|失败",
        "エラー",
        "오류|실패",
    )
)
"""Matches failures as reported by compilers, interpreters, test runners and shells."""

FAILURE_SIGNS = (
    "rror",
    "ERROR",
    "ERR!",
    "xception",
    "Traceback",
    "FAILED",
    "E   ",
    "fatal",
    "fault",
    "panic",
    "exit",
    "not found",
    "No such",
    "enied",
    "错误",
    "失败",
    "エラー",
    "오류",
    "실패",
)
"""Every line that reports a failure contains one of these strings, which can be found quickly."""

CODE_ABOUT_FAILURES = lazy_pattern(
    r"[-+>|\s]{0,8}(?:\d{1,6}[:|\t ]{1,8})?"
    r"(?:raise|except|throw|catch|class|import|from|return|if|elif|for|while|def|case|export|const|let|var|"
    r"function|async|await|assert|with|try|match|pub|fn|use|type|interface|#|//|/\*|\*|<!--|})(?![\w-])"
)
"""Matches code that raises, catches, declares or comments on errors but does not report one."""

ERROR_CLASS = lazy_pattern(
    r"(?:Error|Exception|\berror(?:\[\w+\]|\s\w{1,12})?|\bfatal|\bpanic|ERR!|错误|失败|エラー|오류)[:：] *"
)
"""Matches the class of an error, which comes before the error's message."""

UNINFORMATIVE_FAILURE = lazy_pattern(
    r"Traceback|\W*(?:[\w ]{0,30})?exit(?:ed)?\b[^:]*\Z",
    re.IGNORECASE,
)
"""Matches the first line of a traceback, and a bare exit status.

Other lines report the actual failure.
"""

EXIT_STATUS = lazy_pattern(r"\bexit(?:ed)?\b")

OUTPUT_TRAILER = lazy_pattern(
    r"\W*(?:wall time|took|duration|output|process exited|exit(?:ed)?|chunk id|script (?:completed|running))"
    r"\b",
    re.IGNORECASE,
)
"""Matches lines in which the tool, not the command, reports how the command ended."""

# -- todos -----------------------------------------------------------------------------------------

TODO_NOTE = lazy_pattern(
    r"\b(?:TODO|FIXME)\b(?:\([^)\n]{0,40}\))?:[ \t]+(\S[^\n]{0,399})|"
    r"(?:待办|待做)[：:][ \t]*(\S[^\n]{0,399})"
)
"""Matches notes such as `TODO: text` or `待办：text`."""
DONE_STATES = words_of("completed complete done")
CANCELLED_STATES = words_of("cancelled canceled")
"""Names used by tools for the state of a cancelled todo."""

# -- sections of summaries -------------------------------------------------------------------------

RECAP_GOAL = "primary request and intent"
"""Heading of the first section in Claude Code's summaries. An introduction may precede it."""
SECTION_NAMES = {
    "Goal": f"goals|original request|{RECAP_GOAL}|目标|原始请求|目標|목표",
    "Constraints & Preferences": "constraints|约束与偏好|约束和偏好|约束|制約|제약",
    "Done": "progress|early progress|进展|进度|早期进展|已完成|完了",
    "In Progress": "current work|进行中|進行中",
    "Blocked": "受阻|阻塞|被阻塞",
    "Key Decisions": "关键决策|关键决定|重要な決定",
    "Next Steps": "pending tasks|optional next step|下一步|后续步骤|次のステップ",
    "Critical Context": (
        "context for suffix|关键上下文|后续所需上下文|analysis|key technical concepts|"
        "files and code sections|errors and fixes|problem solving|all user messages"
    ),
}
"""Other names for each section.

These are Claude Code's names, translations, and the names in the summary of a split turn.
"""
