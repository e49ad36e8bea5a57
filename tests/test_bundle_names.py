"""Entries' names: any file's source gets a readable, safe name of its own."""

from __future__ import annotations

import zipfile

import pytest
from bundles import FILE, plain_manifest
from hypothesis import given
from hypothesis import strategies as st

from replay.bundle import BundleWriter, layout
from replay.bundle.archive import name_problem


@given(
    st.lists(
        st.text() | st.sampled_from([FILE, "/b/BLOCK.py", "<string>", "..", "/a/../b.py", "C:\\x\\nul.py"])
    )
)
def test_any_file_gets_a_safe_name_of_its_own(filenames):
    taken: set[str] = set()
    for filename in filenames:
        entry = layout.source_name(filename, lambda name: name.casefold() in taken)
        assert name_problem(entry) is None
        assert entry.startswith("source/")
        taken.add(entry.casefold())
    assert len(taken) == len(filenames)


@pytest.mark.parametrize(
    ("filename", "entry"),
    [
        ("/home/ann/project/nets/block.py", "source/project/nets/block.py"),
        ("block.py", "source/block.py"),
        ("../../etc/passwd", "source/etc/passwd"),
        ("C:\\Users\\ann\\block.py", "source/Users/ann/block.py"),
        ("<ipython-input-3-ab>", "source/ipython-input-3-ab"),
        ("/a/größe.py", "source/a/größe.py"),
        ("/a/b\x1b[2J.py", "source/a/b__2J.py"),
        ("", "source/unnamed"),
    ],
)
def test_a_source_keeps_a_readable_name(filename, entry):
    assert layout.source_name(filename, lambda name: False) == entry


def test_sources_of_one_name_are_numbered_and_equal_ones_kept_once(tmp_path):
    with BundleWriter(tmp_path, "x") as writer:
        names = [writer.add_source(f, t) for f, t in [("/a/m.py", "1"), ("a/M.py", "2"), ("/a/m.py", "1")]]
    assert names == ["source/a/m.py", "source/2/a/M.py", "source/a/m.py"]


def test_a_source_is_never_both_a_file_and_a_folder(tmp_path):
    with BundleWriter(tmp_path, "x") as writer:
        names = [writer.add_source(f, "") for f in ("a", "a/b.py", "c/d/e.py", "c/d")]
        path = writer.commit(plain_manifest())
    with zipfile.ZipFile(path) as other:
        other.extractall(tmp_path / "out")
    assert all((tmp_path / "out" / name).is_file() for name in names)
