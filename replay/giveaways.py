"""Cheap signs that bytes or names hold what people regret to have sent: keys of well-known forms, secret-like names.

For where a detector would take too long to import: the recorder. `contents.secrets` asks a maintained detector.
Nothing here opens a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

TOKENS: Mapping[str, re.Pattern[bytes]] = {
    "AWS key": re.compile(rb"(?<![A-Z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])"),
    "GitHub token": re.compile(rb"(?<!\w)(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{22,255})"),
    "GitLab token": re.compile(rb"(?<!\w)glpat-[\w-]{20}"),
    "Hugging Face token": re.compile(rb"(?<!\w)hf_[A-Za-z]{34}(?!\w)"),
    "OpenAI or Anthropic key": re.compile(rb"(?<!\w)sk-(?:ant-|proj-)?[A-Za-z0-9_-]{32,}"),
    "Slack token": re.compile(rb"(?<!\w)xox[abprs]-[A-Za-z0-9-]{10,}"),
    "Google key": re.compile(rb"(?<!\w)AIza[\w-]{35}(?!\w)"),
    "Weights & Biases key": re.compile(rb"(?i:wandb[\w \"']{0,20}[=:,] ?[\"']?)[0-9a-f]{40}(?!\w)"),
    "private key": re.compile(rb"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----"),
    "JSON web token": re.compile(rb"(?<!\w)eyJ[\w-]{10,2000}\.eyJ[\w-]{10,4000}\.[\w-]{10,1000}"),
    "password in an address": re.compile(
        rb"[a-z][a-z0-9+.-]{1,12}://[^\s/:@\"']{1,80}:[^\s/:@\"']{3,80}@[\w.-]"
    ),
}
"""Kinds of keys that are known by their form, as their issuers document it."""

_SECRET_NAME = re.compile(
    r"(?i)(?:pass(?:word|wd|phrase)|secret|credential|(?:api|access|private|auth)[_-]?key"
    r"|(?:^|[_-])(?:token|pwd|auth|apikey)(?:$|[_-]))"
)

HOME = re.compile(r"(?:/(?:home|Users)/|[A-Za-z]:\\{1,2}Users\\{1,2}|/(?=root(?:/|$)))([^/\\\s\"':;,<>|]+)")
"""A home directory; the group is the user's name."""

NOBODY = "user"
"""What stands for a user's name in a bundle that was stripped."""

MAIL = re.compile(r"(?<![\w.+:/-])[\w.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,5}[A-Za-z]{2,24}(?![\w-])")


def tokens_in(data: bytes) -> dict[str, int]:
    """How many keys of each kind the bytes hold; kinds that are absent are left out."""
    found = {kind: len(set(pattern.findall(data))) for kind, pattern in TOKENS.items()}
    return {kind: count for kind, count in found.items() if count}


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name is likely to hold a secret: DB_PASSWORD, HF_TOKEN; not TOKENIZERS_PARALLELISM."""
    return bool(_SECRET_NAME.search(name))


def secret_names(names: Iterable[str]) -> list[str]:
    """Those of the names."""
    return [name for name in names if is_secret_name(name)]
