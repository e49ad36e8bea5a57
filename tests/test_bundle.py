"""Bundles: what is written comes back, and blobs are views of the file."""

from __future__ import annotations

import dataclasses
import gc
import os
import subprocess
import sys
import threading
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from bundles import BLOB, FILE, TEXT, VALUES, plain_manifest, write_bundle
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.bundle import BundleWriter, load
from replay.errors import BundleError, MissingError
from replay.recording import Missing

scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False)
plain = st.recursive(
    scalars | st.text(max_size=20) | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
configs = st.dictionaries(st.text(max_size=20), plain, max_size=5)


def test_a_bundle_comes_back_whole(tmp_path):
    path = write_bundle(tmp_path)
    with load(path) as bundle:
        assert path.name == "x.rec"
        assert (bundle.path, bundle.size) == (str(path), path.stat().st_size)
        assert bundle.source_for(FILE) == TEXT
        assert bundle.source_for("/elsewhere.py") is None
        assert bundle.values() == VALUES
        assert bytes(bundle.blob("blobs/s0")) == BLOB
        assert bundle.manifest.error == plain_manifest().error
        assert set(bundle.manifest.entries) == {
            "README.txt",
            "source/ann/nets/block.py",
            "values.pkl",
            "blobs/s0",
        }
        bundle.verify()


@settings(deadline=None)
@given(
    config=configs, sources=st.dictionaries(st.text(max_size=40), st.text(), max_size=5), values=st.binary()
)
def test_any_manifest_sources_and_values_come_back(tmp_path_factory, config, sources, values):
    with BundleWriter(tmp_path_factory.mktemp("any"), "x") as writer:
        entries = {name: writer.add_source(name, text) for name, text in sources.items()}
        writer.add_values(values)
        written = plain_manifest(config=config, sources=entries, missing=(Missing("a", "b", "c"),))
        path = writer.commit(written)
    with load(path) as bundle:
        assert dataclasses.replace(bundle.manifest, entries={}) == written
        assert {name: bundle.source_for(name) for name in sources} == sources
        assert bundle.values() == values


@settings(deadline=None, max_examples=30)
@given(
    st.dictionaries(
        st.from_regex(r"[a-z0-9_-]{1,8}", fullmatch=True), st.lists(st.binary(max_size=300)), max_size=5
    )
)
def test_any_blobs_in_any_chunks_come_back_aligned(tmp_path_factory, blobs):
    with BundleWriter(tmp_path_factory.mktemp("any"), "x") as writer:
        for key, chunks in blobs.items():
            writer.add_blob(key, sum(map(len, chunks)), chunks)
        path = writer.commit(plain_manifest())
    with load(path) as bundle:
        bundle.verify()
        for key, chunks in blobs.items():
            view = bundle.blob(f"blobs/{key}")
            assert bytes(view) == b"".join(chunks)
            assert not view or bundle._records[f"blobs/{key}"].data_offset % 64 == 0


def test_a_blob_of_many_megabytes_comes_back_from_chunks_whose_memory_is_reused(tmp_path):
    buffer, expected = bytearray(5 << 20), b""

    def chunks():
        for number in range(3):
            buffer[:] = bytes([number + 1]) * len(buffer)
            yield memoryview(buffer)

    with BundleWriter(tmp_path, "x") as writer:
        entry = writer.add_blob("s", 3 * len(buffer), chunks())
        path = writer.commit(plain_manifest())
    expected = b"".join(bytes([n + 1]) * len(buffer) for n in range(3))
    with load(path) as bundle:
        assert bundle.blob(entry) == expected
        bundle.verify()


def test_a_blob_is_written_without_threads_where_the_system_refuses_them(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    path = write_bundle(tmp_path, blobs={"a": bytes(9 << 20), "b": b"\x01" * (9 << 20)})
    with load(path) as bundle:
        bundle.verify()


def test_writing_and_opening_a_large_blob_copies_no_more_than_a_few_megabytes(tmp_path):
    data = bytearray(64 << 20)
    tracemalloc.start()  # counts what Python allocates; benchmarks/bundle_io.py measures the process
    try:
        path = write_bundle(tmp_path, blobs={"s": data})
        with load(path) as bundle:
            assert bundle.blob("blobs/s").nbytes == len(data)
            bundle.verify()
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_equal_contents_make_equal_files(tmp_path):
    assert write_bundle(tmp_path / "a").read_bytes() == write_bundle(tmp_path / "b").read_bytes()


def test_other_programs_open_a_bundle(tmp_path):
    with zipfile.ZipFile(write_bundle(tmp_path)) as other:
        assert other.testzip() is None
        assert other.read("blobs/s0") == BLOB
        assert other.read("source/ann/nets/block.py").decode() == TEXT
        assert b"python -m replay" in other.read("README.txt")
        assert other.namelist()[0] == "README.txt"


@pytest.mark.parametrize("name", ["x.rec.zip", "x.zip", "x", "größer.bin"])
def test_a_bundle_opens_under_any_name(tmp_path, name):
    path = write_bundle(tmp_path).rename(tmp_path / name)
    with load(str(path)) as bundle:
        assert bundle.values() == VALUES


def test_reading_a_bundle_imports_neither_torch_nor_pickle_machinery_of_others(tmp_path):
    path = write_bundle(tmp_path)
    program = (
        "import sys; from replay.bundle import load\n"
        f"with load({str(path)!r}) as bundle: bundle.verify()\n"
        "assert not {'torch', 'dill', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[1])


def test_a_view_is_writable_and_private(tmp_path):
    path = write_bundle(tmp_path)
    before = path.read_bytes()
    with load(path) as bundle:
        first = bundle.blob("blobs/s0")
        first[0] = 99
        assert bytes(bundle.blob("blobs/s0")) == BLOB
        assert first[0] == 99
    assert path.read_bytes() == before


def test_a_forgotten_bundle_closes_its_file_without_a_warning(tmp_path, recwarn):
    path = write_bundle(tmp_path)
    view = load(path).blob("blobs/s0")
    gc.collect()
    del view
    gc.collect()
    open_files = {os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")}
    assert str(path.resolve()) not in open_files
    assert not recwarn.list


def test_a_bundle_can_be_closed_twice_and_is_closed_then(tmp_path):
    bundle = load(write_bundle(tmp_path))
    bundle.close()
    bundle.close()
    with pytest.raises(ValueError, match="closed"):
        bundle.values()


def test_a_view_outlives_its_bundle(tmp_path):
    with load(write_bundle(tmp_path)) as bundle:
        view = bundle.blob("blobs/s0")
    assert bytes(view) == BLOB


def test_many_blobs_share_one_map(tmp_path):
    """A map costs a file descriptor, of which a process often has only 256."""
    path = write_bundle(tmp_path, blobs={f"s{n}": bytes([n]) * 64 for n in range(100)})
    with load(path) as bundle:
        views = [bundle.blob(f"blobs/s{n}") for n in range(100)]
        assert len({id(view.obj) for view in views}) == 1


def test_a_damaged_blob_is_found_when_it_is_read_not_when_the_bundle_is_opened(tmp_path):
    path = write_bundle(tmp_path)
    data = bytearray(path.read_bytes())
    data[data.index(BLOB) + 5] ^= 1
    path.write_bytes(data)
    with load(path) as bundle:
        assert bundle.blob("blobs/s0", verify=False).nbytes == len(BLOB)
        with pytest.raises(BundleError, match="'blobs/s0' is damaged"):
            bundle.blob("blobs/s0")
        with pytest.raises(BundleError, match="'blobs/s0' is damaged"):
            bundle.verify()


def test_what_a_bundle_lacks_is_missing(tmp_path):
    with BundleWriter(tmp_path, "x") as writer:
        path = writer.commit(plain_manifest())
    with load(path) as bundle:
        for read in (bundle.values, lambda: bundle.blob("blobs/s9"), lambda: bundle.source("source/a.py")):
            with pytest.raises(MissingError, match=r"x\.rec: the bundle has no "):
                read()
