"""Files that are no bundles, and archives that only an adversary writes: each is refused by name."""

from __future__ import annotations

import errno
import gzip
import io
import os
import pickle
import zipfile

import msgspec
import pytest
from bundles import plain_manifest, write_bundle

from replay.bundle import BundleWriter, layout, load
from replay.errors import BundleError
from replay.recording import Entry


def zipped(**contents: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"def f():\n    pass\n", "a text file"),
        (b"\xff\xfe\x00junk", "not a bundle"),
        (b"<!DOCTYPE html><html>", "a web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "git lfs pull"),
        (pickle.dumps({"a": 1}, protocol=4), r"torch\._dynamo.*record again with replay\.record"),
        (gzip.compress(b"x"), "gzip.*unpack it first"),
        (zipped(a=b"1"), "a ZIP archive, but not a bundle"),
        (zipped(**{"x.rec": b"1"}), "contains a bundle, 'x.rec'; unpack it first"),
        (zipped(**{"m/data.pkl": b"1"}), r"torch\.save"),
        (zipped(a=b"1")[:-5], "cut short or damaged"),
        (b"PK\x03\x04", "cut short or damaged"),
        (zipped(), "a ZIP archive, but not a bundle"),
    ],
    ids=range(13),
)
def test_a_file_that_is_no_bundle_is_recognised(tmp_path, data, message):
    path = tmp_path / "x.rec"
    path.write_bytes(data)
    with pytest.raises(BundleError, match=message) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert ";" in str(caught.value) or "record again" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_repacked_bundle_is_recognised(tmp_path):
    with zipfile.ZipFile(write_bundle(tmp_path)) as whole:
        data = zipped(**{name: whole.read(name) for name in whole.namelist()})
    (tmp_path / "y.rec").write_bytes(data)
    with pytest.raises(BundleError, match="repacked"):
        load(tmp_path / "y.rec")


def test_bytes_behind_a_bundle_are_recognised(tmp_path):
    path = write_bundle(tmp_path)
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(BundleError, match="bytes behind its end"):
        load(path)


@pytest.mark.parametrize("cut", [1, 50, 100, 130, 500, 1500])
def test_a_truncated_bundle_is_recognised(tmp_path, cut):
    path = write_bundle(tmp_path)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(BundleError, match="cut short"):
        load(path)


def test_missing_files_directories_and_pipes_are_recognised(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, message in [
        (tmp_path / "gone.rec", "no such file"),
        (tmp_path, "a directory"),
        (tmp_path / "pipe", "not a regular file"),
        ("a\0b", "cannot be opened"),
    ]:
        with pytest.raises(BundleError, match=message):
            load(path)


def test_an_unreadable_file_is_recognised(tmp_path, monkeypatch):
    path = write_bundle(tmp_path)

    def refuse(*args):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(BundleError, match="may not be read; change its permissions"):
        load(path)


@pytest.fixture
def forge(tmp_path, monkeypatch):
    """`forge(change)`: a bundle from a writer whose entries `change(writer)` has tampered with."""

    def write(change, **changes):
        with BundleWriter(tmp_path, "forged") as writer:
            extra = change(writer)
            return writer.commit(plain_manifest(**changes, **(extra or {})))

    return write


def test_a_zip_bomb_is_refused_without_being_inflated(forge, monkeypatch):
    with monkeypatch.context() as loose:
        loose.setattr(layout, "MAX_RATIO", 1 << 30)
        path = forge(lambda writer: writer.add_values(bytes(10 << 20)))
    with pytest.raises(BundleError, match=r"inflates 'values\.pkl' from \d+ to 10485760 bytes"):
        load(path)


def test_an_entry_that_holds_more_than_it_declares_is_refused(tmp_path):
    path = write_bundle(tmp_path, blobs={})
    data = path.read_bytes()
    size = msgspec.msgpack.decode(zipfile.ZipFile(path).read("manifest.msgpack"))
    manifest_size = len(msgspec.msgpack.encode(size))
    small = (manifest_size - 1).to_bytes(4, "little")
    path.write_bytes(data.replace(manifest_size.to_bytes(4, "little"), small))
    with pytest.raises(BundleError, match=r"'manifest\.msgpack' is damaged"):
        load(path)


def test_what_compresses_too_well_is_stored_so_that_the_reader_takes_it(tmp_path):
    with BundleWriter(tmp_path, "x") as writer:
        writer.add_values(bytes(10 << 20))
        path = writer.commit(plain_manifest(config={"zeros": bytes(1 << 20)}))
    with load(path) as bundle:
        assert bundle.values() == bytes(10 << 20)


@pytest.mark.parametrize("name", ["extra.txt", "manifest.json", "source", "__main__.py"])
def test_an_entry_of_an_unknown_name_is_refused(forge, name):
    path = forge(lambda writer: writer._add(name, b"1"))
    with pytest.raises(BundleError, match=f"holds '{name}'"):
        load(path)


def test_an_entry_that_the_manifest_does_not_list_is_refused(forge):
    def add(writer):
        writer.add_values(b"1")
        del writer._entries["values.pkl"]

    with pytest.raises(BundleError, match=r"unlisted, 'values\.pkl'"):
        load(forge(add))


def test_an_entry_that_is_listed_and_not_there_is_refused(forge):
    def add(writer):
        writer._entries["values.pkl"] = Entry(1, "sha256:00")

    with pytest.raises(BundleError, match=r"lacks 'values\.pkl'"):
        load(forge(add))


@pytest.mark.parametrize("entry", [Entry(1, "xxh3:00"), Entry(2, "sha256:00"), Entry(1, "")])
def test_an_entry_that_the_manifest_describes_otherwise_is_refused(forge, entry):
    def add(writer):
        writer.add_values(b"1")
        writer._entries["values.pkl"] = entry

    with pytest.raises(BundleError, match=r"'values\.pkl' is damaged"):
        load(forge(add))


def test_a_manifest_too_large_to_be_read_is_not_written(tmp_path):
    with BundleWriter(tmp_path, "x") as writer, pytest.raises(ValueError, match="bytes are more than"):
        writer.commit(plain_manifest(config={"k": bytes(17 << 20)}))
