"""Damage: whatever happens to a bundle's bytes, reading it is a BundleError or gives the same content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bundles import write_bundle
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.bundle import load
from replay.errors import BundleError


def content(path: Path) -> tuple[Any, ...]:
    """All that a bundle holds."""
    with load(path) as bundle:
        bundle.verify()
        names = bundle.manifest.entries
        blobs = [bytes(bundle.blob(name)) for name in names if name.startswith("blobs/")]
        sources = [bundle.source(name) for name in names if name.startswith("source/")]
        return bundle.manifest, bundle.values(), blobs, sources


def differs_or_is_refused(path: Path, data: bytes, whole: tuple[Any, ...]) -> str:
    path.write_bytes(data)
    try:
        return "same" if content(path) == whole else "DIFFERENT"
    except BundleError as error:
        message = str(error)
    assert message.startswith(f"{path}: ")
    assert message.count("\n") < 2
    return "refused"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, tuple[Any, ...], Path]:
    path = write_bundle(tmp_path_factory.mktemp("whole"), blobs={"a": b"", "b": bytes(range(70))})
    return path.read_bytes(), content(path), path.with_name("damaged.rec")


@pytest.mark.parametrize("change", [0x01, 0x80, 0xFF], ids=hex)
def test_one_damaged_byte_anywhere_is_an_error_or_harmless(whole, change):
    data, before, path = whole
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= change
        assert differs_or_is_refused(path, bytes(damaged), before) != "DIFFERENT", position


def test_almost_no_damaged_byte_is_harmless(whole):
    """Only the last, unused bits of a deflated entry may change and leave the content as it is."""
    data, before, path = whole
    harmless = []
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x80
        if differs_or_is_refused(path, bytes(damaged), before) == "same":
            harmless.append(position)
    assert len(harmless) <= 3


def test_a_bundle_that_is_cut_short_anywhere_is_refused(whole):
    data, before, path = whole
    for length in range(len(data)):
        assert differs_or_is_refused(path, data[:length], before) == "refused", length


def test_one_missing_or_doubled_byte_anywhere_is_refused(whole):
    data, before, path = whole
    for position in range(0, len(data), 3):
        without = data[:position] + data[position + 1 :]
        doubled = data[: position + 1] + data[position:]
        assert differs_or_is_refused(path, without, before) == "refused", position
        assert differs_or_is_refused(path, doubled, before) == "refused", position


@settings(deadline=None)
@given(data=st.data())
def test_any_damage_is_an_error_or_harmless(whole, data):
    intact, before, path = whole
    start = data.draw(st.integers(0, len(intact)))
    end = data.draw(st.integers(start, min(len(intact), start + 200)))
    middle = data.draw(st.binary(max_size=200) | st.just(intact[start:end][::-1]))
    assert differs_or_is_refused(path, intact[:start] + middle + intact[end:], before) != "DIFFERENT"


@settings(deadline=None)
@given(st.binary(max_size=500) | st.binary(max_size=500).map(b"PK\x03\x04".__add__))
def test_arbitrary_bytes_are_refused(whole, data):
    assert differs_or_is_refused(whole[2], data, whole[1]) == "refused"
