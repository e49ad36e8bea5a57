"""Comparison with files in tests/gold. A mismatch writes what came out beside the gold file, as `.actual`."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "gold"


def assert_gold(name: str, actual: str) -> None:
    """The text equals tests/gold/<name>; if not, the failure says how to accept the new text."""
    gold = FOLDER / name
    rejected = gold.with_name(name + ".actual")
    if gold.is_file() and gold.read_text(encoding="utf-8") == actual:
        rejected.unlink(missing_ok=True)
        return
    FOLDER.mkdir(exist_ok=True)
    rejected.write_text(actual, encoding="utf-8")
    pytest.fail(
        f"{gold} differs from what came out. Compare:  diff {gold} {rejected}\n"
        f"To accept the new text:  mv {rejected} {gold}"
    )
