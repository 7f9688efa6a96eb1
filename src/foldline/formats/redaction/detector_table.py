"""What a credential looks like: the detectors of `detect-secrets`, and a few of our own.

Of the library, the detectors by entropy and for IP addresses are left out: digests, commits and ids are not
credentials (docs/decisions/0019-redaction.md).
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Final


@dataclass(frozen=True, slots=True)
class Detector:
    """A regular expression, and where to try it."""

    kind: str
    pattern: re.Pattern[str]
    hints: tuple[str, ...]
    """Only lines with one of these are looked at, in lower case."""
    gate: re.Pattern[str] | None = None
    """What such a line must hold besides."""
    most: int = 1_000_000
    """Hints in a line: where there are more, nobody assigns anything, and the pattern would take for ever."""
    group: int = 0
    """The group that is the credential; of several that exclude each other, the first one of them."""
    accepts: Callable[[str, str], bool] | None = None
    """Whether this value, in this line, is one after all."""


_DIGIT: Final = re.compile(r"\d")
_SIGNS: Final = frozenset("!@#$%^&*+=?~")
_WITHOUT_MEANING: Final = re.compile(
    r"(?i)x{4,}|\*{3,}|\.{3}|…|<|>|\$\{?\w|%\(|\{\{|redacted|example|placeholder|change.?me|dummy"
    r"|your[-_ ]|\s"
)
"""In a value that stands for another one: docs and templates are full of them."""


@cache
def by_hints() -> dict[tuple[str, ...], list[Detector]]:
    """All detectors; those with the same hints look at the same lines."""
    detectors: dict[tuple[str, ...], list[Detector]] = {}
    for detector in (*_from_library(), *_OURS, *_keywords()):
        detectors.setdefault(detector.hints, []).append(detector)
    return detectors


def _from_library() -> Iterator[Detector]:
    for module, plugin, kind, hints, group, gate in _PLUGINS:
        known = getattr(import_module(f"detect_secrets.plugins.{module}"), plugin)
        valid = getattr(known, "is_formally_valid", None)
        for pattern in known.denylist:
            yield Detector(
                kind,
                pattern,
                hints,
                gate=re.compile(gate) if gate else None,
                group=pattern.groups and group,
                accepts=_accepts(kind, valid),
            )


def _accepts(kind: str, valid: Callable[[str], bool] | None) -> Callable[[str, str], bool]:
    if valid is not None:
        return lambda value, line: valid(".".join(value.split(".")[:2]))
    if kind == "password-in-url":
        return lambda value, line: not _stands_for_another(value)
    return _has_digit


def _has_digit(value: str, line: str) -> bool:
    return _DIGIT.search(value) is not None


_PLUGINS: Final = (
    ("artifactory", "ArtifactoryDetector", "artifactory", ("akc", "ap"), 0, r"A[KP][A-F\d][a-zA-Z0-9]{8}"),
    ("aws", "AWSKeyDetector", "aws-access-key", ("akia", "asia", "abia", "acca", "a3t", "aws"), 1, None),
    ("azure_storage_key", "AzureStorageKeyDetector", "azure-storage-key", ("accountkey=",), 0, None),
    ("basic_auth", "BasicAuthDetector", "password-in-url", ("://",), 1, "@"),
    ("cloudant", "CloudantDetector", "cloudant", ("cloudant",), 1, None),
    ("discord", "DiscordBotTokenDetector", "discord-token", (".",), 0, r"\.[\w-]{6}\.[\w-]{27}"),
    (
        "github_token",
        "GitHubTokenDetector",
        "github-token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
        0,
        None,
    ),
    ("gitlab_token", "GitLabTokenDetector", "gitlab-token", ("gl", "gr1348941"), 0, r"[a-zA-Z0-9_\-]{20}"),
    (
        "ibm_cloud_iam",
        "IbmCloudIamDetector",
        "ibm-cloud-key",
        ("key", "pwd", "pass", "token"),
        1,
        r"[\w-]{44}",
    ),
    ("ibm_cos_hmac", "IbmCosHmacDetector", "ibm-cos-key", ("secret",), 1, "[a-fA-F0-9]{48}"),
    ("jwt", "JwtTokenDetector", "json-web-token", ("eyj",), 0, None),
    ("mailchimp", "MailchimpDetector", "mailchimp-key", ("-us",), 0, None),
    ("npm", "NpmDetector", "npm-token", ("_authtoken",), 1, None),
    ("openai", "OpenAIDetector", "api-key", ("t3blbkfj",), 0, None),
    ("pypi_token", "PypiTokenDetector", "pypi-token", ("pypi-ag",), 0, None),
    ("sendgrid", "SendGridDetector", "sendgrid-key", ("sg.",), 0, None),
    ("slack", "SlackDetector", "slack-token", ("xox", "hooks.slack.com"), 0, None),
    ("softlayer", "SoftlayerDetector", "softlayer-key", ("softlayer", "sl_", "slapi"), 1, "[a-zA-Z0-9]{64}"),
    ("square_oauth", "SquareOAuthDetector", "square-secret", ("sq0csp-",), 0, None),
    ("stripe", "StripeDetector", "stripe-key", ("k_live_",), 0, None),
    ("telegram_token", "TelegramBotTokenDetector", "telegram-token", (":",), 0, r"\d{8}:[\w-]{35}"),
    ("twilio", "TwilioKeyDetector", "twilio-key", ("ac", "sk"), 0, r"(?:AC|SK)[a-z0-9]{32}"),
)
"""Module and class in the library, our name of the kind, its literals, which group is the credential (of
those where a group is no more than a prefix, all of it), and what a line must hold besides."""

_OURS: Final = (
    Detector("api-key", re.compile(r"\bsk-[A-Za-z0-9_-]{20,}"), ("sk-",), accepts=_has_digit),
    Detector("api-key", re.compile(r"\b(?:gsk_|xai-|hf_|r8_|nvapi-)[A-Za-z0-9_-]{30,}"),
             ("gsk_", "xai-", "hf_", "r8_", "nvapi-"), accepts=_has_digit),
    Detector("google-key", re.compile(r"\bAIza[\w-]{35}|\bGOCSPX-[\w-]{20,}|\bya29\.[\w-]{20,}"),
             ("aiza", "gocspx-", "ya29."), accepts=_has_digit),
    Detector("github-token", re.compile(r"\bgithub_pat_\w{22,}"), ("github_pat_",), accepts=_has_digit),
    Detector("npm-token", re.compile(r"\bnpm_[A-Za-z0-9]{36}"), ("npm_",), accepts=_has_digit),
    Detector("authorization", re.compile(r"(?i)\b(?:bearer|basic) +([\w.~+/=-]{16,})"), ("bearer ", "basic "),
             group=1, accepts=lambda value, line: _is_secret(value)),
    Detector("password-in-url", re.compile(r"://[^\s:/@\"'<>]*:([^\s/@\"'<>]{3,})@[\w.-]"), ("://",),
             gate=re.compile("@"), group=1, accepts=lambda value, line: not _stands_for_another(value)),
)  # fmt: skip
"""Keys that came after the library's last release, the servers Foldline talks to first of all."""


# --- keywords ---------------------------------------------------------------------------------------

_QUOTE: Final = re.compile("[\"'`]")
_NAMES: Final = ("key", "secret", "passw", "pwd", "db_pass", "contrase")
_SETTING: Final = re.compile(
    r"(?<![\w$.{-])[A-Z0-9_]*(?:API_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|PRIVATE_KEY|ACCESS_KEY)(?:_[A-Z0-9]+)?"
    r"\s*=\s*[\"']?([^\s\"'#]{6,})"
)
"""As in an env file or a shell, quoted or not."""


def _keywords() -> Iterator[Detector]:
    known = import_module("detect_secrets.plugins.keyword")
    for pattern, group in known.QUOTES_REQUIRED_DENYLIST_REGEX_TO_GROUP.items():
        yield Detector(
            "password", pattern, _NAMES, gate=_QUOTE, most=24, group=group, accepts=_is_assigned_secret
        )
    names = ("key=", "token", "secret", "passw", "key ")
    yield Detector("password", _SETTING, names, group=1, accepts=_is_set)


def _is_assigned_secret(value: str, line: str) -> bool:
    return len(value) >= 8 and _is_secret(value) and not _stands_for_another(value)


def _is_set(value: str, line: str) -> bool:
    return not _stands_for_another(value) and not re.search(r"[()\[\]]|^[\w]+\.[\w.]+$", value)


def is_telling(value: str) -> bool:
    """Whether a value is so much its own that it can be looked for everywhere: no word, no number."""
    signs = sum(char.isdigit() or char in _SIGNS for char in value)
    return 0 < signs < len(value) >= 6 and len(set(value)) >= 4


def _is_secret(value: str) -> bool:
    """Whether a value is no identifier, path or word: letters and digits or signs, in no readable order."""
    if not is_telling(value) or _DIGIT.search(value) is None:
        return False
    return not re.fullmatch(
        r"[a-z]+(?:[-_./][a-z]+)*[-_]?\d{0,2}|[A-Z_]+\d{0,2}|[\w.]+\(.*|/.*|[\d.:,-]+", value
    )


def _stands_for_another(value: str) -> bool:
    heuristic = import_module("detect_secrets.filters.heuristic")
    return (
        _WITHOUT_MEANING.search(value) is not None
        or heuristic.is_templated_secret(value)
        or heuristic.is_prefixed_with_dollar_sign(value)
        or heuristic.is_not_alphanumeric_string(value)
        or heuristic.is_sequential_string(value)
    )
