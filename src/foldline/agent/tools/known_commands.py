"""Commands whose leading words say what they do: what "always" may allow beyond one exact command. Pure.

A rule by leading words must not become a general licence. So it is made only of commands known here, only
where the shell would change nothing about their words, and only with options known here: those that start no
other program, load no code or settings, write to no file they name, and do not change the folder. Nor does it
hold commands that follow links they find by themselves (`diff` of two folders).
"""

import re
from collections.abc import Iterator
from itertools import takewhile

_COMMANDS = """
ls              -aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxX1 --all --almost-all --human-readable --recursive
                --reverse --size --sort --time --color --classify --directory --full-time
cat             -AbeEnstTuv --number --show-all --show-ends --squeeze-blank
head            -cnqvz --lines --bytes --quiet --verbose
tail            -cnqvz --lines --bytes --quiet --verbose
wc              -clmLw --lines --words --bytes --chars --max-line-length
nl              -bnw --body-numbering --number-width
cut             -bcdfsz --delimiter --fields --characters --only-delimited --output-delimiter
tr              -cCdst --delete --squeeze-repeats --complement
comm            -123z
cmp             -blsn --silent --quiet --verbose
stat            -cfLt --format --terse --dereference
file            -bihkLNp --brief --mime --mime-type --mime-encoding
du              -abcdhkmsSx --all --summarize --human-readable --max-depth --total --bytes
df              -ahHikTx --human-readable --inodes --print-type
pwd             -LP
which           -a
echo            -neE
basename        -asz
dirname         -z
realpath        -emqsz
readlink        -efmnqsvz
md5sum          -bt
sha256sum       -bt
cksum
true
uname           -amnrsv
whoami
tree            -adfhipPqsDuFCIL --dirsfirst --gitignore --noreport --prune --du
grep            -aAbBcCeEFGhHiIlLmnoPqrsTUvwxyZz --recursive --line-number --ignore-case --count
                --files-with-matches --only-matching --include --exclude --exclude-dir --color --context
                --max-count --word-regexp --extended-regexp --fixed-strings --invert-match --no-messages --
rg              -aABbcCeFghHiIlmMnNoPpqrsStTUuvwx0. --files --type --type-not --glob --iglob --hidden
                --no-ignore --ignore-case --smart-case --line-number --count --count-matches
                --files-with-matches --files-without-match --fixed-strings --word-regexp --only-matching
                --max-count --max-depth --context --color --no-heading --heading --json --multiline --pcre2
                --sort --stats --trim --type-list --replace --
find            -name -iname -path -ipath -wholename -regex -iregex -type -maxdepth -mindepth -not -o -or -a
                -and -size -empty -newer -mtime -mmin -ctime -cmin -atime -amin -perm -user -group -print
                -print0 -prune -depth -xdev -mount -readable -writable -executable -links -H -P
git status      -bsuvz --short --branch --porcelain --long --untracked-files --ignored --show-stash --
git diff        -abBCDMRSWUwpuz --stat --shortstat --numstat --name-only --name-status --cached --staged
                --no-ext-diff --no-color --color --word-diff --unified --patch --summary --check
                --ignore-all-space --ignore-space-change --ignore-blank-lines --diff-filter --find-renames
                --minimal --histogram --patience --raw --exit-code --quiet --function-context --merge-base
                --no-textconv --
git log         -bBCGLMSinpuwz --oneline --stat --shortstat --numstat --name-only --name-status --graph
                --all --decorate --no-decorate --format --pretty --date --since --until --after --before
                --author --committer --grep --max-count --skip --reverse --first-parent --merges --no-merges
                --follow --patch --no-patch --abbrev-commit --branches --tags --remotes --ancestry-path
                --no-color --color --diff-filter --full-history --invert-grep --
git show        -bBCMpsuwz --stat --shortstat --numstat --name-only --name-status --oneline --format
                --pretty --no-patch --patch --abbrev-commit --date --no-color --color --
git blame       -beflnpstwCLM --porcelain --line-porcelain --date --show-email --since --
git branch      -arv --all --remotes --list --show-current --merged --no-merged --contains --sort --format
                --verbose
git ls-files    -cdkmostuvz --cached --deleted --modified --others --stage --exclude-standard --full-name --
git ls-tree     -rdtlz --name-only --long --full-tree
git rev-parse   --short --abbrev-ref --verify --show-toplevel --git-dir --is-inside-work-tree --quiet -q
git rev-list    --count --all --max-count --reverse --since --until --oneline -n
git describe    --tags --always --dirty --abbrev --long --all --match
git shortlog    -sneac --summary --numbered --email
git add         -AnuvN --all --update --dry-run --verbose --intent-to-add --
git commit      -amqsv --all --message --quiet --signoff --verbose --allow-empty --no-edit --dry-run
git grep        -aceEFGhHiIlLnoPqvwz --line-number --ignore-case --count --files-with-matches --word-regexp
                --fixed-strings --extended-regexp --cached --untracked --
pytest          -qvsxlkmr --verbose --quiet --exitfirst --maxfail --lf --ff --nf --last-failed
                --failed-first --tb --durations --collect-only --co --no-header --no-summary --sw --stepwise
                --capture --color --strict-markers --showlocals --deselect --ignore
ruff check      -evnqs --diff --select --ignore --extend-select --extend-ignore --statistics --show-fixes
                --preview --output-format --exit-zero --no-cache --target-version --line-length
ruff format     -vnqs --check --diff --preview --no-cache --line-length --target-version
mypy            -pmv --strict --pretty --show-error-codes --show-error-context --show-column-numbers
                --no-color-output --no-error-summary --ignore-missing-imports --python-version --verbose
black           -lqtv --check --diff --quiet --verbose --line-length --skip-string-normalization
                --target-version --preview
isort           -cdqv --check --check-only --diff --quiet --profile --line-length
flake8          -qv --select --ignore --extend-ignore --max-line-length --max-complexity --statistics
                --count --show-source
npm test        -s --silent
npm run         -s --silent --if-present
pnpm test
pnpm run        -s --silent --if-present
yarn test
yarn run        -s --silent
cargo build     -jprqv --release --all --workspace --package --all-targets --all-features
                --no-default-features --features --lib --bin --bins --tests --examples --quiet --verbose
                --locked --offline --frozen --message-format --jobs --profile --keep-going
cargo check     -jprqv --release --all --workspace --package --all-targets --all-features
                --no-default-features --features --lib --bin --bins --tests --examples --quiet --verbose
                --locked --offline --frozen --message-format --jobs --profile --keep-going
cargo test      -jprqv --release --all --workspace --package --all-targets --all-features
                --no-default-features --features --lib --bin --bins --test --tests --doc --quiet --verbose
                --locked --offline --frozen --no-run --no-fail-fast --jobs --profile
cargo clippy    -jpqv --all --workspace --package --all-targets --all-features --no-default-features
                --features --lib --tests --quiet --verbose --locked --offline
cargo fmt       -pqv --all --check --package --quiet --verbose
cargo tree      -deipq --depth --edges --invert --package --duplicates --features --all-features
go build        -v -race -trimpath -tags
go test         -v -race -run -count -short -timeout -cover -bench -benchtime -benchmem -failfast -tags
                -parallel -shuffle -json -list -skip
go vet          -v -json -tags
go list         -m -f -json -deps -test -e
go version      -m
make            -ijknqstwBS --keep-going --dry-run --just-print --silent --quiet --always-make --touch
                --question --no-print-directory --trace
tsc             --noEmit --pretty --strict --skipLibCheck
"""
"""`LEADING WORDS  OPTIONS`: letters after one `-` may stand together, as in `-la`; names of several letters
after one `-` (`find`, `go`) are whole words. A value may follow as `=VALUE`, or as the next word."""

_WHOLE_WORDS = ("find", "go")
"""Programs whose options of several letters begin with one `-`."""

_FRONTS = {
    "uv run": ("pytest", "mypy", "black", "isort", "flake8", "ruff check", "ruff format"),
    "poetry run": ("pytest", "mypy", "black", "isort", "flake8", "ruff check", "ruff format"),
    "python -m": ("pytest",),  # of others, a file of that name in the project would take the place
    "python3 -m": ("pytest",),
}
"""What may stand before some of them without changing what they do."""

_NAMES_A_SCRIPT = (("npm", "run"), ("pnpm", "run"), ("yarn", "run"))
"""Commands of which the next word is part of what they do; of `make`, all targets are."""

_LITERAL = re.compile(r"[^\W_]|[-_./:,+%^@=]")
"""What a word may hold outside quotes without the shell making something else of it."""
_NUMBER = re.compile(r"-[0-9]+")
_PLAIN = re.compile(r"[A-Za-z][\w.:-]*", re.ASCII)


def _table() -> Iterator[tuple[tuple[str, ...], frozenset[str], str]]:
    for row in re.split(r"\n(?! )", _COMMANDS.strip()):
        words = row.split()
        leading = tuple(takewhile(lambda word: not word.startswith("-"), words))
        options = words[len(leading) :]
        whole = leading[0] in _WHOLE_WORDS
        letters = "" if whole else "".join(o[1:] for o in options if not o.startswith("--"))
        named = frozenset(o for o in options if whole or o.startswith("--"))
        yield leading, named, letters


_KNOWN = {leading: (named, letters) for leading, named, letters in _table()}
_KNOWN |= {
    (*front.split(), *name.split()): _KNOWN[tuple(name.split())]
    for front, names in _FRONTS.items()
    for name in names
}
_MOST_LEADING = max(map(len, _KNOWN))


def leading_words(command: str) -> str:
    """The words a rule may be made of: `git status`, `npm run build`; empty where only the exact command
    will do."""
    words = literal_words(command)
    starts = (tuple(words[:count]) for count in range(min(_MOST_LEADING, len(words)), 0, -1))
    leading = next((start for start in starts if start in _KNOWN), None)
    if leading is None:
        return ""
    named, letters = _KNOWN[leading]
    rest = words[len(leading) :]
    if leading in _NAMES_A_SCRIPT:
        if not rest or not _PLAIN.fullmatch(rest[0]):
            return ""
        leading, rest = (*leading, rest[0]), rest[1:]
    if leading == ("make",):
        targets = [word for word in rest if not word.startswith("-") and not word.isdecimal()]
        if not all(map(_PLAIN.fullmatch, targets)):
            return ""  # a variable, with its `=`, can name a program that is started
        leading = (*leading, *targets)
    return " ".join(leading) if all(_changes_nothing(word, named, letters) for word in rest) else ""


def literal_words(command: str) -> list[str]:
    """The words of one simple command that the shell passes on as they are; none where it is anything else.

    No expansion, substitution, redirection or comment, no second command, nothing that a reader cannot see.
    """
    words: list[str] = []
    word: list[str] | None = None
    quote = ""
    for char in command:
        if quote:
            if char == quote:
                quote = ""
            elif not char.isprintable() or (quote == '"' and char in "$`\\"):
                return []
            else:
                assert word is not None, "a quote begins a word"
                word.append(char)
        elif char in "'\"":
            quote, word = char, word or []
        elif char in " \t":
            words += ["".join(word)] if word is not None else []
            word = None
        elif _LITERAL.match(char):
            word = word or []
            word.append(char)
        else:
            return []
    if quote:
        return []
    return [*words, "".join(word)] if word is not None else words


def _changes_nothing(word: str, named: frozenset[str], letters: str) -> bool:
    """Whether a word after the leading ones leaves what the command does as it is."""
    if not word.startswith("-"):
        return not word.startswith("@")  # a file of that name would hold options
    if word == "-" or word in named or _NUMBER.fullmatch(word):
        return True
    name, _, value = word.partition("=")
    if value or word.startswith("--"):
        return name in named
    return bool(letters) and all(char in letters for char in word[1:].rstrip("0123456789"))
