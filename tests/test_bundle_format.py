"""The specification, docs/bundle-format.md, says what the code does."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import zipfile
from pathlib import Path

import msgspec
import pytest
from bundles import plain_manifest, write_bundle

from replay import recording
from replay.bundle import FORMAT, LEDGER, BundleWriter, archive, layout, load, manifest, rewritten

TEXT = Path(__file__).parents[1].joinpath("docs", "bundle-format.md").read_text(encoding="utf-8")


def rows(title: str) -> list[list[str]]:
    """The cells of the first table in the section `title`, without its head."""
    section = TEXT.split(f"\n## {title}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def number(text: str) -> int:
    value, _, unit = text.replace(",", "").partition(" ")
    return int(value) << (20 if unit == "MiB" else 0)


def test_the_present_version_is_stated():
    assert re.search(r"present version of\s+the format is \*\*(\d+)\*\*", TEXT)[1] == str(FORMAT)


def test_the_ledger_is_that_of_the_code():
    assert rows("Versions") == [[str(c.format), c.release, c.what] for c in LEDGER]


def test_the_entries_and_their_digests_are_those_of_the_code():
    stated = {row[0].strip("`"): row[3] for row in rows("Entries")}
    assert stated.keys() == {*layout.SINGLE, layout.SOURCES + "...", layout.BLOBS + "<key>"}
    for name, digest in stated.items():
        assert digest.partition(",")[0] == layout.digest_name(name)


def test_the_limits_are_those_of_the_code():
    assert [number(row[1]) for row in rows("Limits")] == [
        archive.MAX_ENTRIES,
        archive.MAX_DIRECTORY,
        layout.MAX_MANIFEST,
        layout.MAX_DEFLATED,
        layout.MAX_RATIO,
    ]
    assert f"at most {archive.MAX_NAME:,} bytes" in TEXT
    assert f"a multiple of {archive.ALIGNMENT} bytes" in TEXT
    assert f"nested at most {manifest.MAX_DEPTH} deep" in TEXT


@pytest.mark.parametrize("row", rows("The manifest"), ids=lambda row: row[0])
def test_the_manifests_keys_are_those_of_the_data_model(row):
    name, keys = row
    fields = dataclasses.fields(getattr(recording, name))
    assert re.findall(r"`(\w+)`", keys) == [field.name for field in fields]


def test_every_map_that_a_manifest_holds_is_listed():
    holds = {"Manifest"}
    for _ in range(4):  # as deep as maps nest
        for name in list(holds):
            types = " ".join(str(field.type) for field in dataclasses.fields(getattr(recording, name)))
            found = {word for word in re.findall(r"\w+", types) if hasattr(recording, word)}
            holds |= {word for word in found if dataclasses.is_dataclass(getattr(recording, word))}
    assert {row[0] for row in rows("The manifest")} == holds


def test_the_comment_of_a_bundle_is_the_one_that_is_specified(tmp_path):
    stated = re.search(r"^    (torch-replay bundle; .*)$", TEXT, re.M)[1]
    with zipfile.ZipFile(write_bundle(tmp_path)) as bundle:
        comment = bundle.comment.decode()
    assert re.sub(r"[0-9a-f]{64}", "<64 hexadecimal digits>", comment) == stated
    assert len(comment) == layout.COMMENT_SIZE


def test_headers_are_as_they_are_specified(tmp_path):
    with zipfile.ZipFile(write_bundle(tmp_path)) as bundle:
        for info in bundle.infolist():
            assert info.date_time == (1980, 1, 1, 0, 0, 0)
            assert info.flag_bits == 0x0800
            assert info.external_attr >> 16 == 0o100644
            assert (info.create_system, info.create_version, info.extract_version) == (3, 45, 20)
            assert info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def test_the_seal_is_made_as_specified(tmp_path):
    made = []

    def sign(digest):
        made.append(digest)
        return "5ea1" * 16

    with BundleWriter(tmp_path, "sealed", sign=sign) as writer:
        path = writer.commit(dataclasses.replace(plain_manifest(), seal="of another file"))
    with zipfile.ZipFile(path) as bundle:
        data = bundle.read(layout.MANIFEST)
    assert "the last 64 bytes of" in TEXT
    assert (data[-64:], list(msgspec.msgpack.decode(data))[-1]) == (b"5ea1" * 16, "seal")
    assert made == [hashlib.sha256(data[:-64]).digest()]
    with load(path) as opened:
        assert (opened.seal, opened.sealed) == ("5ea1" * 16, made[0])


def test_a_bundle_that_is_written_again_has_no_seal(tmp_path):
    with BundleWriter(tmp_path, "x", sign=lambda digest: "5ea1" * 16) as writer:
        first = writer.publish(plain_manifest())
    with load(first.path) as bundle:
        again = rewritten(bundle, bundle.manifest, first)
    with load(again.path) as bundle:
        assert (bundle.seal, bundle.sealed, bundle.manifest.seal) == ("", b"", "")
