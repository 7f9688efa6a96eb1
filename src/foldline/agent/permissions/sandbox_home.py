"""Decides which parts of the home folder are visible in the sandbox.

Names that begin with a dot are hidden, except those that builds need. Only these exceptions are listed,
because all other entries may contain keys, chats, history or settings, even entries of programs that are
installed later. If a folder contains both keys and caches (`.cargo`, `.m2`), only some of its parts are
listed.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from foldline.data import real_path
from foldline.files import is_there

_OF_BUILDS = {
    "": ".pyenv .rye .poetry .pipx .virtualenvs .venv .venvs .micromamba .miniconda3 .pixi "
    ".nvm .fnm .volta .n .nodenv .npm .npm-global .npm-packages .yarn .pnpm-store .bun .deno "
    ".rustup .goenv .gvm .sdkman .jenv .jdks .konan .rbenv .rvm .rubies .asdf .proto .tfenv .mix .elan "
    ".ghcup .opam .nimble .choosenim .dotnet .gitlibs .plenv .perlbrew .perl5 .swiftly .vcpkg .espressif "
    ".emscripten_cache .svm .solc-select .nix-profile .guix-profile .linuxbrew .fonts .terminfo "
    ".gitconfig .gitignore .gitignore_global .gitattributes .editorconfig .clang-format .clang-tidy "
    ".tool-versions .asdfrc .python-version .node-version .nvmrc .ruby-version .java-version .latexmkrc",
    ".cache": "pip uv pypoetry pdm hatch pre-commit mypy ruff black go-build gopls golangci-lint staticcheck "
    "node yarn pnpm deno node-gyp typescript turbo nx prisma electron electron-builder ms-playwright "
    "puppeteer Cypress selenium bazel bazelisk ccache sccache zig nix coursier cabal rebar3 composer "
    "matplotlib fontconfig torch huggingface/hub huggingface/datasets clangd vcpkg Homebrew mise swiftly",
    ".config": "git/config git/ignore git/attributes go/env mise/config.toml pypoetry/config.toml "
    "composer/vendor yarn/global fontconfig cabal/packages guix/current",
    ".local": "bin lib include opt pipx state/nix state/cabal",
    ".local/share": "uv pipx pypoetry pdm hatch virtualenv virtualenvs pnpm fnm mise rtx aquaproj-aqua gem "
    "jupyter/kernels coursier racket swiftly fonts man",
    ".conda": "envs pkgs environments.txt",
    ".cargo": "bin registry git env config config.toml .crates.toml .crates2.json .package-cache "
    ".global-cache",
    ".m2": "repository wrapper toolchains.xml",
    ".gradle": "caches wrapper jdks daemon native",
    ".sbt": "boot launchers",
    ".ivy2": "cache local",
    ".gem": "ruby",
    ".nuget": "packages",
    ".composer": "vendor cache",
    ".pub-cache": "bin hosted hosted-hashes git global_packages",
    ".hex": "packages cache.ets",
    ".stack": "programs snapshots pantry stack.sqlite3 global-project setup-exe-cache",
    ".cabal": "packages store bin lib share",
    ".julia": "packages artifacts registries compiled environments juliaup",
    ".conan": "data profiles",
    ".conan2": "p profiles",
    ".platformio": "packages platforms penv",
    ".arduino15": "packages",
    ".luarocks": "bin lib share",
    ".android": "debug.keystore cache",
    ".foundry": "bin cache",
    ".krew": "bin",
    ".pulumi": "bin plugins",
    ".terraform.d": "plugins plugin-cache",
    ".lein": "self-installs",
    ".R": "Makevars",
    ".agents": "skills",
    ".claude": "skills",
}
"""Paths that builds need, by parent folder: compilers, package caches, settings without keys, and skills."""
_MOVED = {
    "XDG_CACHE_HOME": ".cache",
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "CARGO_HOME": ".cargo",
    "GRADLE_USER_HOME": ".gradle",
    "STACK_ROOT": ".stack",
    "PUB_CACHE": ".pub-cache",
    "COMPOSER_HOME": ".composer",
    "HEX_HOME": ".hex",
    "CONAN_HOME": ".conan2",
}
"""Environment variables that override the path of one of these folders, with that folder's default path."""
_PROGRAMS = (
    "VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "NVM_DIR", "VOLTA_HOME", "PNPM_HOME", "BUN_INSTALL",
    "DENO_DIR", "RUSTUP_HOME", "GOROOT", "GOPATH", "GOMODCACHE", "GOCACHE", "JAVA_HOME", "SDKMAN_DIR",
    "ANDROID_HOME", "DOTNET_ROOT", "OPAMROOT", "ASDF_DIR", "ASDF_DATA_DIR", "MISE_DATA_DIR", "RBENV_ROOT",
    "GEM_HOME", "UV_CACHE_DIR", "PIP_CACHE_DIR",
    "GIT_CONFIG_GLOBAL", "NPM_CONFIG_CACHE", "npm_config_cache", "NPM_CONFIG_PREFIX", "npm_config_prefix",
)  # fmt: skip
"""Environment variables with the path of a program, a cache or git's settings."""
_NAMES_KEYS = re.compile(
    "CREDENTIAL|SECRET|TOKEN|PASS|KEY|AUTH|COOKIE|NETRC|HIST|KUBECONFIG|USERCONFIG|GNUPGHOME|ZDOTDIR|IPYTHONDIR"
    "|PGSERVICEFILE|CLOUDSDK_CONFIG|DOCKER_CERT_PATH|(?<!GIT)_CONFIG(_DIR|_FILE)?$"
    "|^(CLAUDE|CODEX|GEMINI|KIMI|OPENCODE|QWEN)_.*(HOME|DIR)$",
    re.IGNORECASE,
)
"""Matches environment variables that point to keys, an agent's settings, or command history."""
_NO_DOT = "Library" if sys.platform == "darwin" else "snap"
"""A folder in the home folder that is hidden although its name has no dot.

It contains browser profiles and chats.
"""
_OF_LIBRARY = (
    "Caches",
    "Developer",
    "Python",
    "Java",
    "Fonts",
    "Android",
    "pnpm",
    "Frameworks",
)
_MOST_ENTRIES = 100
"""Maximum number of the home folder's entries that are shown, folders first.

The others are hidden. Each shown entry costs bubblewrap half a millisecond.
"""


def _is_private(name: str) -> bool:
    return name.startswith(".") or name == _NO_DOT


def _build_places() -> Iterator[str]:
    """Yield the paths that builds need, relative to the home folder."""
    for folder, names in _OF_BUILDS.items():
        yield from (f"{folder}/{name}".removeprefix("/") for name in names.split())
    yield from (f"Library/{name}" for name in _OF_LIBRARY)


BUILD_PLACES = frozenset(_build_places())


def is_private(path: Path, home: Path) -> bool:
    """Return whether a path is in a hidden part of the home folder.

    Does no I/O.
    """
    if path == home or not path.is_relative_to(home):
        return False
    parts = path.relative_to(home).parts
    above = ("/".join(parts[:count]) for count in range(1, len(parts) + 1))
    return _is_private(parts[0]) and BUILD_PLACES.isdisjoint(above)


def private_entries(home: Path) -> list[str]:
    """Return the home folder's entries that are hidden completely or in part."""
    return [
        entry.path
        for entry in _entries(home)
        if _is_private(entry.name) and entry.name not in BUILD_PLACES
    ]


def open_entries(home: Path) -> list[str]:
    """Return the folders and files of the home folder that are shown.

    Links, sockets and pipes are left out.
    """
    entries = [entry for entry in _entries(home) if not _is_private(entry.name)]
    folders = sorted(
        entry.path for entry in entries if entry.is_dir(follow_symlinks=False)
    )
    files = sorted(
        entry.path for entry in entries if entry.is_file(follow_symlinks=False)
    )
    return [*folders, *files][:_MOST_ENTRIES]


def _entries(home: Path) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(home) as entries:
            return list(entries)
    except OSError:
        return []


def build_places(home: Path, environ: Mapping[str, str]) -> list[str]:
    """Return the existing paths that builds need, in the home folder or moved by a variable."""
    moved = {folder: base for base, folder in _moved(environ)}
    places = []
    for folder, names in _OF_BUILDS.items():
        bases = {f"{home}/{folder}".rstrip("/"), moved.get(folder, "")}
        places += [
            f"{base}/{name}"
            for base in bases
            if base and is_there(base)
            for name in names.split()
        ]
    places += [
        f"{home}/Library/{name}" for name in _OF_LIBRARY if sys.platform == "darwin"
    ]
    # Git's settings may include files of any name. Without them, commits could have the wrong author.
    places += [
        entry.path for entry in _entries(home) if entry.name.startswith(".gitconfig")
    ]
    places += [
        entry.path
        for entry in _entries(home / ".config/git")
        if entry.name != "credentials"
    ]
    above_home = {home, *home.parents}
    named = [environ.get(name, "") for name in _PROGRAMS] + environ.get(
        "PATH", ""
    ).split(os.pathsep)
    places += [
        value
        for value in named
        if value.startswith("/") and Path(value) not in above_home
    ]
    return [place for place in dict.fromkeys(places) if is_there(place)]


def moved_keys(environ: Mapping[str, str]) -> list[str]:
    """Return paths from environment variables that may contain keys."""
    named = (value for name, value in environ.items() if _NAMES_KEYS.search(name))
    return [base for base, _ in _moved(environ)] + [
        value for value in named if value.startswith("/")
    ]


def _moved(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, folder in _MOVED.items():
        if (base := environ.get(name, "")).startswith("/"):
            yield base, folder


def links_to(paths: list[str], home: Path) -> list[tuple[str, str]]:
    """Return links in the home folder and in the parents of these paths, with their targets."""
    places = {entry.path for entry in _entries(home) if entry.is_symlink()}
    for path in map(Path, paths):
        if path.is_relative_to(home) and real_path(path) != str(path):
            above = (
                part
                for part in path.parents
                if part != home and part.is_relative_to(home)
            )
            places |= {
                f"{real_path(part.parent)}/{part.name}" for part in (*above, path)
            }
    links = sorted(place for place in places if os.path.islink(place))  # noqa: PTH114
    return [(link, os.readlink(link)) for link in links]  # noqa: PTH115
