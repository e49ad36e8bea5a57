"""Publishing: a whole bundle under a name of its own, or nothing and a message."""

from __future__ import annotations

import errno
import io
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from bundles import plain_manifest, write_bundle

from replay.bundle import BundleWriter, load, publishing
from replay.errors import BundleError
from replay.recording import Substitution


def test_a_bundle_never_replaces_another_file(tmp_path):
    paths = [write_bundle(tmp_path) for _ in range(3)]
    assert [path.name for path in paths] == ["x.rec", "x-2.rec", "x-3.rec"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x-2.rec", "x-3.rec", "x.rec"]


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_bundle_never_replaces_another_file_where_there_are_no_hard_links(tmp_path, monkeypatch, number):
    def refuse(*args):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    test_a_bundle_never_replaces_another_file(tmp_path)


def test_writers_at_the_same_time_get_names_of_their_own(tmp_path):
    threads = [threading.Thread(target=write_bundle, args=(tmp_path,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(tmp_path.iterdir())) == 8
    for path in tmp_path.iterdir():
        load(path).close()


def publish(directory, values, instead_of=None):
    with BundleWriter(directory, "x") as writer:
        writer.add_values(values)
        return writer.publish(plain_manifest(), instead_of)


def test_a_second_bundle_takes_the_place_of_the_first_in_one_step(tmp_path, monkeypatch):
    first = publish(tmp_path, b"1")
    replaced = []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda *paths: (replaced.append(paths), replace(*paths)))
    second = publish(tmp_path, b"2", first)
    assert (second.path, [one.name for one in tmp_path.iterdir()]) == (first.path, ["x.rec"])
    assert len(replaced) == 1
    assert second.is_there()
    assert not first.is_there()
    with load(second.path) as bundle:
        assert bundle.values() == b"2"


@pytest.mark.parametrize("change", [lambda path: path.write_bytes(b"mine"), lambda path: path.unlink()])
def test_a_file_that_somebody_has_changed_is_not_replaced(tmp_path, change):
    first = publish(tmp_path, b"1")
    change(first.path)
    before = first.path.read_bytes() if first.path.exists() else None
    second = publish(tmp_path, b"2", first)
    assert second.path.name == ("x.rec" if before is None else "x-2.rec")
    assert before is None or first.path.read_bytes() == before


def test_a_storage_that_was_kept_must_be_there(tmp_path):
    found = Substitution(False, True, "passed", kept=("s7",))
    with BundleWriter(tmp_path, "x") as writer, pytest.raises(ValueError, match="'s7' should have been kept"):
        writer.commit(plain_manifest(substitution=found))


def test_leaving_without_commit_leaves_nothing(tmp_path):
    with BundleWriter(tmp_path, "x") as writer:
        writer.add_blob("s", 3, [b"abc"])
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []


def test_an_exception_leaves_nothing_and_passes_through(tmp_path):
    with pytest.raises(KeyError), BundleWriter(tmp_path, "x"):
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_permissions_are_those_of_any_new_file(tmp_path):
    (tmp_path / "other").touch()
    expected = (tmp_path / "other").stat().st_mode
    assert stat.S_IMODE(write_bundle(tmp_path).stat().st_mode) == stat.S_IMODE(expected)


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        ([b"ab"], "2 bytes came, 3 were announced"),
        ([b"ab", b"cd"], "more bytes came than the 3"),
        ([], "0 bytes came"),
    ],
)
def test_a_blob_that_fails_leaves_the_writer_as_it_was(tmp_path, chunks, message):
    with BundleWriter(tmp_path, "x") as writer:
        with pytest.raises(ValueError, match=message):
            writer.add_blob("s", 3, chunks)
        writer.add_blob("s", 3, [b"abc"])
        path = writer.commit(plain_manifest())
    with load(path) as bundle:
        assert bytes(bundle.blob("blobs/s")) == b"abc"
        bundle.verify()


@pytest.mark.parametrize("key", ["", "../x", "a/b", "a b", ".", "..", "ä", "x" * 101])
def test_a_key_that_is_no_plain_name_is_refused(tmp_path, key):
    with BundleWriter(tmp_path, "x") as writer, pytest.raises(ValueError, match="key"):
        writer.add_blob(key, 0, [])


def test_an_entry_is_written_once(tmp_path):
    with BundleWriter(tmp_path, "x") as writer:
        writer.add_values(b"1")
        writer.add_blob("s", 0, [])
        with pytest.raises(ValueError, match="already"):
            writer.add_values(b"2")
        with pytest.raises(ValueError, match="already"):
            writer.add_blob("S", 0, [])


@pytest.mark.parametrize("stem", ["", ".", "..", "a/b", "a\\b", "a\nb", "C:x"])
def test_a_stem_that_is_no_file_name_is_refused(tmp_path, stem):
    with pytest.raises(ValueError, match="stem"):
        BundleWriter(tmp_path, stem)


class FullDisk(io.FileIO):
    """A file on a disk that has room for so many bytes."""

    room = 0
    number = errno.ENOSPC

    def write(self, data):
        room = self.room - self.tell()
        if room <= 0:
            raise OSError(self.number, os.strerror(self.number))
        return super().write(memoryview(data)[:room])


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("part", [0, 0.1, 0.4, 0.6, 0.7, 0.8, 0.9, 0.999])
def test_a_full_disk_is_said_and_leaves_nothing(tmp_path, monkeypatch, part, number):
    whole = write_bundle(tmp_path)
    monkeypatch.setattr(FullDisk, "room", int(whole.stat().st_size * part))
    whole.unlink()
    monkeypatch.setattr(FullDisk, "number", number)
    monkeypatch.setattr(Path, "open", lambda path, mode, buffering=-1: FullDisk(path, mode))
    with pytest.raises(BundleError, match=r"x\.rec: cannot be written: .*; free some space") as caught:
        write_bundle(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_write_that_the_system_itself_refuses_is_said():
    pending = publishing.PendingFile.__new__(publishing.PendingFile)
    pending._directory, pending._stem, pending._suffix, pending.position = Path("d"), "x", ".rec", 0
    with (
        open("/dev/full", "wb", buffering=0) as pending._file,
        pytest.raises(BundleError, match="free some space"),
    ):
        pending.write(b"1")


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.EACCES, "make the directory writable"),
        (errno.EROFS, "make the directory writable"),
        (errno.EIO, "rror"),
    ],
)
def test_a_directory_that_refuses_is_said(tmp_path, monkeypatch, number, message):
    def refuse(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(BundleError, match=message):
        BundleWriter(tmp_path, "x")


def test_a_file_in_place_of_the_directory_is_said(tmp_path):
    (tmp_path / "file").touch()
    for directory in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(BundleError, match="a file stands where its directory should be"):
            BundleWriter(directory, "x")


def test_a_process_that_is_killed_leaves_nothing_under_the_final_name(tmp_path):
    program = (
        "import os, pathlib; from replay.bundle import BundleWriter\n"
        f"writer = BundleWriter(pathlib.Path({str(tmp_path)!r}), 'x')\n"
        "writer.add_values(b'1'); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[1]).returncode == 9
    assert [path.suffix for path in tmp_path.iterdir()] == [".tmp"]
