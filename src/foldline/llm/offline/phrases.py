"""The phrases the offline model understands, in English and Chinese: one regex per way of asking."""

import re

_I = re.IGNORECASE | re.DOTALL

# Fences, backticks, and quotes of several scripts. Single quotes only around whole words: "don't" is none.
QUOTED = re.compile(
    r"```[\w+-]{0,20}\n(.*?)\n?```|`([^`\n]{1,400})`|\"([^\"\n]{1,400})\"|“([^”\n]{1,400})”|"
    r"「([^」\n]{1,400})」|『([^』\n]{1,400})』|(?<!\w)'([^'\n]{1,400})'(?!\w)",
    re.DOTALL,
)
QUOTE = re.compile("\ue000(\\d+)\ue001")
"""The mark that stands for a quotation."""
_Q = "\ue000\\d+\ue001"
_WORD = rf"(?:{_Q}|[^\s,，;；]+)"

# "create notes.txt with:" and all that follows, up to the end of the message.
TEXT_TO_END = re.compile(
    r"\A((?:[^\n]{0,200}?\W)?(?:create|write|make|创建|新建|写)[^\n]{1,300}?"
    r"(?:\bwith(?: the)?(?: contents?| text)?|\bcontaining|内容(?:为|是)?)[ \t]*[:：][ \t]*\n?)(\S.*)\Z",
    _I,
)

POLITE = re.compile(
    r"\A(?:(?:please|pls|ok(?:ay)?|hey|hi|hello|well|so|now|first(?:ly)?|second(?:ly)?|next|also|and|then|"
    r"finally|just|can you|could you|would you|will you|i want you to|i'd like you to|let's|let us|"
    r"help me(?: to)?|go ahead and|try to)\b[,:]?\s*|"
    r"(?:请你?|帮我|麻烦你?|能不能|可以|能否|先|再|然后|接着|最后|首先|现在|给我|帮忙|并且?|也)[，,]?\s*)+",
    _I,
)
_EN_VERB = (
    r"(?:read|show|open|cat|view|display|print|look|list|ls|find|glob|search|grep|run|execute|write|create|make|save|"
    r"put|replace|change|rename|summari[sz]e|explain|check|tell|what|how|describe|review|where)\b"
)
_ZH_VERB = r"(?:读|打开|查看|看|显示|列|搜|查找|找|运行|执行|跑|写|创建|新建|保存|把|将|替换|总结|在)"
_LINKS = r"(?:(?:and|then|also|finally|afterwards|after that|next|please|now)\b,?\s{0,9})"
# A clause ends at punctuation or a linking word, where a verb we know begins the next one.
CLAUSE_END = re.compile(
    rf"(?:\s{{0,9}}(?:[,;!?]|\.(?=\s)|\n)\s{{0,9}}{_LINKS}{{0,4}}|\s{{1,9}}{_LINKS}{{1,4}})(?={_EN_VERB})|"
    rf"\s{{0,9}}[,，;；。、！？\n]?\s{{0,9}}(?:然后|接着|之后|再|最后|并且|并)\s{{0,9}}(?={_ZH_VERB}|{_EN_VERB})|"
    rf"\s{{0,9}}[,，;；。！？\n]\s{{0,9}}(?=(?:请|帮我|也)?{_ZH_VERB})",
    re.IGNORECASE,
)
SEQUENCE = re.compile(r"\b(?:then|after|next|finally)|然后|接着|之后|再|最后", re.IGNORECASE)

HELP = re.compile(
    r"\A\W*(?:help|hi|hello|hey|你好|您好|嗨|帮助)\W*\Z|\b(?:who|what) are you\b(?! (?:doing|working))|"
    r"what can you do|(?:which|what) model (?:are|is)|are you (?:an? )?(?:real |language |ai\b)|"
    r"你是谁|你能做什么|你会什么|你是什么|什么模型",
    _I,
)
HISTORY = re.compile(
    r"(?:(?:search|look|grep)(?: in| through)? (?:the |our |your )?(?:full )?history for|"
    r"(?:在)?历史(?:记录)?(?:中|里)?(?:搜索|查找))\s*(?P<what>.+)",
    _I,
)
RECALL = re.compile(
    r"what (?:did|have|had) (?:we|you|i)\b|what happened|where (?:were|are) we|"
    r"what(?:'s| is| was) (?:the goal|our goal|done|left|going on)|"
    r"(?:what )?do you (?:still )?(?:remember|know)(?:\s+(?:about |of )?(?P<what>.+))?|"
    r"(?:我们|你|刚才|之前|前面).{0,6}(?:做了|干了|完成了|说了|改了)|还?记得(?:什么|(?P<was>.+))?|进展如何",
    _I,
)
SUMMARISE = re.compile(r"\b(?:summari[sz]e|summary|recap|sum up)\b|总结|概括|回顾", re.IGNORECASE)
"""Asks for a summary of the conversation, where no file is named."""

REPLACE = (
    re.compile(
        r"(?:replace|change|rename|substitute|swap)\s+(?P<all>(?:all|every)\s+)?(?:occurrences?\s+of\s+)?"
        rf"(?P<old>{_Q}|.+?)\s+(?:with|by|to|into)\s+(?P<new>{_Q}|.+?)\s+(?:in|inside|within)\s+(?:the\s+)?(?:file\s+)?(?P<path>{_WORD})"
        r"(?P<everywhere>\s+(?:everywhere|globally))?",
        _I,
    ),
    re.compile(
        rf"(?:在\s*)(?P<path>{_Q}|[^\s，,]+?)\s*(?:文件)?(?:中|里|内)\s*[，,]?\s*(?:把|将)\s*(?P<all>所有的?)?\s*"
        rf"(?P<old>{_Q}|.+?)\s*(?P<everywhere>全部|都)?\s*(?:替换|改|换)(?:成|为)\s*(?P<new>{_Q}|.+?)",
        _I,
    ),
    re.compile(
        rf"(?:把|将)\s*(?P<path>{_Q}|[^\s，,]+?)\s*(?:文件)?(?:中|里|内)(?:面)?\s*的?\s*(?P<all>所有的?)?\s*"
        rf"(?P<old>{_Q}|.+?)\s*(?P<everywhere>全部|都)?\s*(?:替换|改|换)(?:成|为)\s*(?P<new>{_Q}|.+?)",
        _I,
    ),
)

IN_FILE = re.compile(
    rf"\bin\s+(?:the\s+)?(?:file\s+)?({_Q}|[^\s,，]+)\s*,?\s+"
    rf"((?:replace|change|rename|substitute)\s+[^,;\n]{{1,300}}?\s+(?:with|by|to|into)\s+(?:{_Q}|[^\s,;]+))",
    _I,
)
"""The same with the file first; its comma would end the clause."""

WRITE = (
    re.compile(
        rf"(?:write|put|save)\s+(?:the\s+(?:text|words?)\s+)?(?P<content>{_Q}|.+?)\s+(?:to|into|in)\s+"
        rf"(?:the\s+|a\s+)?(?:new\s+)?(?:file\s+)?(?:called\s+|named\s+)?(?P<path>{_WORD})",
        _I,
    ),
    re.compile(
        rf"(?:create|make|write|save)\s+(?:an?\s+|the\s+)?(?:new\s+|empty\s+)*(?:file\s+)?(?:called\s+|named\s+)?"
        rf"(?P<path>{_Q}|[^\s,:]+)\s*(?:\bwith\b|\bcontaining\b|\bthat (?:says|contains)\b|:)\s*"
        rf"(?:the\s+)?(?:contents?\s+|text\s+)?:?\s*(?P<content>{_Q}|.+)",
        _I,
    ),
    re.compile(
        rf"create\s+(?:an?\s+|the\s+)?(?:new\s+|empty\s+)*(?:file\s+)?(?:called\s+|named\s+)?"
        rf"(?P<path>{_Q}|[^\s,:]+)(?P<content>)",
        _I,
    ),
    re.compile(
        rf"(?:把|将)\s*(?P<content>{_Q}|.+?)\s*(?:写入|写到|写进|保存到|存到)\s*(?:文件)?\s*(?P<path>{_Q}|\S+)",
        _I,
    ),
    re.compile(
        rf"(?:创建|新建|写)\s*(?:一个)?新?(?:文件)?\s*(?P<path>{_Q}|[^\s,，:：]+)\s*[,，:：]?\s*"
        rf"(?:写入|内容(?:为|是)?)?\s*[:：]?\s*(?P<content>{_Q}|.*)",
        _I,
    ),
)

RUN = re.compile(
    r"(?:(?:run|execute)\s+(?:(?:the\s+)?(?:shell\s+)?command\s*:?\s+)?|"
    r"(?:运行|执行|跑一下|跑)\s*(?:一下)?(?:命令)?\s*[:：]?\s*)(?P<command>\S.*)",
    _I,
)

TYPES = {
    "python": "py",
    "markdown": "md",
    "typescript": "ts",
    "javascript": "js",
    "rust": "rs",
    "go": "go",
    "json": "json",
    "toml": "toml",
    "yaml": "yaml",
    "html": "html",
    "css": "css",
    "java": "java",
}
"""File endings of languages, for "find all Python files"."""
FIND = re.compile(
    r"(?:find|list|glob|show|search for|look for|查找|搜索|列出|找到?)\s*(?:me\s+)?"
    r"(?:all|every|所有的?)?\s*(?:the\s+)?"
    r"(?:(?P<named>files?|文件)\s*(?:matching|named|called|like|that match)?\s*)?"
    rf"(?P<glob>{_Q}|[^\s，,]+?)\s*(?:files?|文件)?(?:\s+(?:in|inside|under|below)\s+(?:the\s+)?(?P<path>{_WORD}))?"
    r"(?:\s+(?:folder|directory))?",
    _I,
)

SEARCH = (
    re.compile(
        rf"(?:grep|rg)\s+(?:-\S+\s+)*(?:for\s+)?(?P<what>{_Q}|\S+)"
        rf"(?:\s+(?:(?:in|inside|under|within)\s+)?(?:the\s+)?(?P<path>{_WORD}))?"
        r"(?:\s+(?:folder|directory|files?))?",
        _I,
    ),
    re.compile(rf"search\s+(?:in\s+)?(?P<path>{_WORD})\s+for\s+(?P<what>{_Q}|.+)", _I),
    re.compile(
        rf"(?:search|look|find)\s+(?:for\s+)?(?:the\s+(?:word|text|string)\s+|all\s+|every\s+|occurrences\s+of\s+)*"
        rf"(?P<what>{_Q}|.+?)"
        rf"(?:\s+(?:in|inside|under|within)\s+(?:the\s+)?(?:file\s+|folder\s+)?(?P<path>{_WORD}))?"
        r"(?:\s+(?:folder|directory|files?))?",
        _I,
    ),
    re.compile(
        rf"where\s+(?:is|are|do\s+we\s+use)\s+(?P<what>{_Q}|\S+)(?:\s+(?:defined|used|declared|set))*"
        rf"(?:\s+(?:in|inside|under)\s+(?P<path>{_WORD}))?",
        _I,
    ),
    re.compile(
        rf"(?:在\s*(?P<path>{_Q}|[^\s，,]+?)\s*(?:目录|文件夹|文件)?(?:中|里|下|内)?(?:面)?\s*)?"
        rf"(?:搜索一下|搜索|查找|搜|找一下|找)\s*(?P<what>{_Q}|.+)",
        _I,
    ),
)

_FOLDER = r"(?:folder|directory|project|repo(?:sitory)?)"
_HERE = rf"(?:here|there|this {_FOLDER}|the (?:current )?{_FOLDER})"
LIST = (
    re.compile(
        r"(?:list|ls|show|what(?:'s|\s+is)(?=\s+(?:in|inside|under)\b)|what(?:\s+files)?\s+are(?=\s+(?:in|here|there)\b)|"
        r"which\s+files\s+are|look\s+at)\b\s*(?:me\s+)?(?:all\s+)?"
        r"(?:the\s+)?(?:files|contents?|everything|folder|directory)?\s*(?:and\s+folders\s+)?"
        rf"(?:of|in|inside|under)?\s*(?:{_HERE}|(?:the\s+)?(?:folder\s+|directory\s+)?"
        rf"(?P<path>{_Q}|[\w./~@+-]+)?(?:\s+(?:folder|directory))?)",
        _I,
    ),
    re.compile(
        rf"(?:列出|列一下|看看|查看|显示)\s*(?:一下)?(?:当前)?(?P<path>{_Q}|[\w./~@+-]+)?\s*"
        r"(?:当前)?(?:目录|文件夹|下|里|中|面)*\s*的?(?:所有)?(?:的)?(?:文件|内容|东西)?",
        re.IGNORECASE | re.ASCII,
    ),
)

READ = re.compile(
    r"(?:(?:read|show|open|cat|view|display|print|look\s+at|explain|summari[sz]e|check|describe|review|"
    r"tell\s+me\s+about)\b|(?:读取|阅读|读一下|读|打开|查看|看看|看一下|看|显示|总结一下|总结|解释一下|解释)\s*(?:一下)?\s*(?:文件)?)\s*",
    _I,
)
ABOUT_IT = re.compile(
    r"(?:and )?(?:tell me|explain|say|report|describe)\b.{0,60}"
    r"\b(?:it|they|them|that|this|happens|result)\b.{0,40}|"
    r"(?:告诉我|说说|解释).{0,20}",
    _I,
)
"""Asks about what was just fetched: every answer does that."""
BOTH_QUESTION = re.compile(r"\b(?:what|how many|which|who)\b|什么|多少|哪些|怎么", re.IGNORECASE)
"""A question that names a file is answered from the file."""
LINES = (
    re.compile(r"lines?\s+(?P<first>\d{1,7})(?:\s*(?:-|–|to|through)\s*(?P<last>\d{1,7}))?", re.IGNORECASE),
    re.compile(r"第?\s*(?P<first>\d{1,7})(?:\s*(?:-|–|到|至)\s*第?(?P<last>\d{1,7}))?\s*行"),
)
