"""What looks like a key, a password or an address in a bundle's texts: detect-secrets decides, well-known forms help.

The detector is imported when it is used, and asks no network: its check whether a key is valid is never switched on.
Nothing here opens a bundle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

from replay import giveaways
from replay.contents.texts import Text
from replay.findings.privacy import Secret

MOST = 200
SHORTEST = 5  # characters; what the detector gives of some tokens is only how they begin
MOST_TEXT = 4 << 20
"""Characters that are given to the detector; it takes seconds for a million."""

LINE = 1_000
"""Characters that the detector gets at once: some of its patterns take time that grows with the square of these."""

DETECTORS = (
    *(
        "ArtifactoryDetector",
        "AWSKeyDetector",
        "AzureStorageKeyDetector",
        "BasicAuthDetector",
        "CloudantDetector",
    ),
    *("DiscordBotTokenDetector", "GitHubTokenDetector", "GitLabTokenDetector", "IbmCloudIamDetector"),
    *("IbmCosHmacDetector", "IPPublicDetector", "JwtTokenDetector", "KeywordDetector", "MailchimpDetector"),
    *("NpmDetector", "OpenAIDetector", "PrivateKeyDetector", "PypiTokenDetector", "SendGridDetector"),
    *(
        "SlackDetector",
        "SoftlayerDetector",
        "SquareOAuthDetector",
        "StripeDetector",
        "TelegramBotTokenDetector",
    ),
    *("TwilioKeyDetector", "Base64HighEntropyString", "HexHighEntropyString"),
)

PUBLIC_ADDRESS, MAIL = "Public IP (ipv4)", "e-mail address"
ADDRESSES = frozenset({PUBLIC_ADDRESS, MAIL})

Look = Callable[[str], Iterator[tuple[str, str]]]
"""A line to the kinds and the texts of secrets in it."""


def detector_name() -> str:
    """`detect-secrets 1.5.0`; empty where it is not installed."""
    try:
        return f"detect-secrets {metadata.version('detect-secrets')}"
    except metadata.PackageNotFoundError:
        return ""


@contextmanager
def detector() -> Iterator[Look]:
    """The detector, ready: while inside its settings are ours."""
    with ExitStack() as stack:
        plugins: list[Any] = []
        keep: Callable[[str], bool] = bool
        if detector_name():
            from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
            from detect_secrets.settings import get_plugins, transient_settings

            classes: dict[str, type] = get_mapping_from_secret_type_to_class()
            known = {cls.__name__ for cls in classes.values()}
            wanted = [{"name": name} for name in DETECTORS if name in known]
            stack.enter_context(transient_settings({"plugins_used": wanted}))
            plugins, keep = get_plugins(), _worth_a_look

        def look(line: str) -> Iterator[tuple[str, str]]:
            for start in range(0, max(len(line), 1), LINE):
                yield from _look(plugins, keep, line[start : start + LINE])

        yield look


def _look(plugins: Iterable[Any], keep: Callable[[str], bool], line: str) -> Iterator[tuple[str, str]]:
    seen = set()
    for plugin in plugins:
        for one in plugin.analyze_line(filename="recorded.py", line=line, line_number=1):
            secret = one.secret_value or ""
            if len(secret) >= SHORTEST and secret not in seen and keep(secret):
                seen.add(secret)
                yield one.type, secret
    data = line.encode("utf-8", "replace")
    for kind, pattern in giveaways.TOKENS.items():
        for found in pattern.finditer(data):
            secret = found.group().decode("utf-8", "replace")
            if not any(one and (one in secret or secret in one) for one in seen):
                seen.add(secret)
                yield kind, secret
    for mail in giveaways.MAIL.finditer(line):
        yield MAIL, mail.group()


def _worth_a_look(secret: str) -> bool:
    """The detector's own rules against what only looks like a secret."""
    from detect_secrets.filters import heuristic

    return not (
        heuristic.is_potential_uuid(secret)
        or heuristic.is_sequential_string(secret)
        or heuristic.is_templated_secret(secret)
        or heuristic.is_not_alphanumeric_string(secret)
        or heuristic.is_prefixed_with_dollar_sign(secret)
    )


@dataclass(slots=True)
class Found:
    """What was found. `raw` holds the secrets themselves, to be masked wherever else they stand; not for output."""

    secrets: list[Secret] = field(default_factory=list)
    raw: dict[str, str] = field(default_factory=dict)  # -> masked
    more: int = 0  # beyond the first MOST
    unread: bool = False  # there was more text than MOST_TEXT


def found_in(texts: Iterable[Text], look: Look) -> Found:
    """The secrets in the texts, each once."""
    found, seen, read = Found(), set(), 0
    for text in texts:
        read += len(text.text)
        if read > MOST_TEXT:
            found.unread = True
            break
        for kind, secret in _of_text(text, look):
            if (kind, secret) in seen:
                continue
            seen.add((kind, secret))
            if len(found.secrets) < MOST:
                found.secrets.append(Secret(kind, text.where, masked(kind, secret)))
            else:
                found.more += 1
            if kind not in ADDRESSES:
                found.raw[secret] = masked(kind, secret)
    return found


def kinds_in(text: str) -> tuple[str, ...]:
    """Which kinds of keys and passwords a text seems to hold; no addresses, and nothing by its disorder alone."""
    with detector() as look:
        found = found_in((Text("text", line) for line in text.splitlines()), look)
    kinds = {one.kind for one in found.secrets} - ADDRESSES
    return tuple(sorted(one for one in kinds if "Entropy" not in one))


def _of_text(text: Text, look: Look) -> Iterator[tuple[str, str]]:
    """A line of source as it is; what is a value as if it were assigned to its name."""
    if text.where.startswith(("manifest", "values.pkl")):
        for line in text.text.splitlines():
            if len(line) > 3:
                yield from look(f'{text.name or "value"} = "{line}"')
    else:
        yield from look(text.text)


def masked(kind: str, secret: str) -> str:
    """Its first characters, and how long it is; an e-mail address without the person, an address of a host whole."""
    if kind == PUBLIC_ADDRESS:
        return secret
    if kind == MAIL:
        return f"{secret[:1]}...@{secret.rpartition('@')[2]}"
    return f"{secret[: min(4, len(secret) // 3)]}... ({len(secret)} characters)"
