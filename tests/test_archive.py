"""The ZIP framing: other programs read what we write, and we read nothing else."""

from __future__ import annotations

import dataclasses
import io
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.bundle import archive
from replay.bundle.archive import ALIGNMENT, FramingError, Record, directory, end_records, local_header

COMMENT = b"a comment"
GIGABYTE = 1 << 30

part = st.text(st.characters(categories=["L", "N"], include_characters="_-. "), min_size=1, max_size=20)
names = st.lists(part.filter(lambda p: p not in (".", "..")), min_size=1, max_size=3).map("/".join)
files = st.dictionaries(names, st.tuples(st.binary(max_size=200), st.booleans()), max_size=8)


def build(contents: dict[str, tuple[bytes, bool]]) -> tuple[bytes, list[Record]]:
    """An archive of stored entries, and its records; the flag says whether an entry is aligned."""
    data, records = b"", []
    for name, (content, aligned) in contents.items():
        record = Record(name, False, zlib.crc32(content), len(content), len(content), len(data), aligned)
        data += local_header(record) + content
        records.append(record)
    listing = directory(records)
    return data + listing + end_records(len(records), len(listing), len(data), COMMENT), records


def read(data: bytes, aligned: frozenset[str] = frozenset()) -> list[Record]:
    def read_at(offset: int, size: int) -> bytes:
        if offset + size > len(data):
            raise FramingError("is too short")
        return data[offset : offset + size]

    return archive.read_directory(read_at, len(data), len(COMMENT), aligned.__contains__)


def distinct(contents: dict[str, tuple[bytes, bool]]) -> dict[str, tuple[bytes, bool]]:
    return {archive.folded(name): value for name, value in contents.items()}


@settings(deadline=None)
@given(files.map(distinct))
def test_what_is_written_is_read_back(contents):
    data, records = build(contents)
    assert read(data, frozenset(n for n, (_, aligned) in contents.items() if aligned)) == records


@settings(deadline=None)
@given(files.map(distinct))
def test_pythons_zipfile_reads_every_archive(contents):
    with zipfile.ZipFile(io.BytesIO(build(contents)[0])) as other:
        assert {name: other.read(name) for name in other.namelist()} == {
            n: c for n, (c, _) in contents.items()
        }
        assert other.comment == COMMENT


@given(names, st.integers(0, 10 * GIGABYTE), st.sampled_from([0, 100, 5 * GIGABYTE]))
def test_aligned_contents_begin_at_a_multiple_of_the_alignment(name, offset, size):
    record = Record(name, False, 0, size, size, offset, aligned=True)
    assert record.data_offset % ALIGNMENT == 0
    assert len(local_header(record)) == len(local_header(dataclasses.replace(record, crc=0xFFFFFFFF)))


def sparse(path: Path, sizes: list[int]) -> list[Record]:
    """A file with entries of these sizes, whose bytes are holes."""
    records: list[Record] = []
    with path.open("wb") as file:
        for index, size in enumerate(sizes):
            record = Record(f"blobs/{index}", False, 0, size, size, file.tell(), aligned=True)
            file.write(local_header(record))
            file.seek(size, io.SEEK_CUR)
            records.append(record)
        start, listing = file.tell(), directory(records)
        file.write(listing + end_records(len(records), len(listing), start, COMMENT))
    return records


@pytest.mark.parametrize(
    "sizes",
    [
        [0xFFFFFFFE],
        [0xFFFFFFFF],
        [5 * GIGABYTE, 3],
        [3 * GIGABYTE, 3 * GIGABYTE, 7],
        [3, 9 * GIGABYTE, 5 * GIGABYTE, 2],
    ],
    ids=str,
)
def test_entries_and_offsets_beyond_4_gb_are_read_by_us_and_by_zipfile(tmp_path, sizes):
    path = tmp_path / "large"
    records = sparse(path, sizes)
    with path.open("rb") as file:

        def read_at(offset: int, size: int) -> bytes:
            file.seek(offset)
            return file.read(size)

        size = path.stat().st_size
        assert archive.read_directory(read_at, size, len(COMMENT), lambda name: True) == records
    with zipfile.ZipFile(path) as other:
        assert [info.file_size for info in other.infolist()] == sizes
        assert [info.header_offset for info in other.infolist()] == [r.offset for r in records]


def test_more_than_65535_entries_are_read_by_us_and_by_zipfile():
    names = [f"n{index}" for index in range(66_000)]
    records, position = [], 0
    for name in names:
        record = Record(name, False, 0, 0, 0, position)
        position = record.end
        records.append(record)
    listing = directory(records)
    data = b"".join(map(local_header, records)) + listing
    data += end_records(len(records), len(listing), position, COMMENT)
    assert read(data) == records
    assert len(zipfile.ZipFile(io.BytesIO(data)).namelist()) == len(names)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("../x", "leaves the archive"),
        ("source/../../x", "leaves the archive"),
        ("/etc/passwd", "leaves the archive"),
        ("C:/x", "leaves the archive"),
        ("./x", "leaves the archive"),
        ("a//b", "leaves the archive"),
        ("a\\..\\b", "characters"),
        ("a\x1b[2Jb", "characters"),
        ("a\x00b", "characters"),
        ("a\u202eb", "characters"),
        ("folder/", "is no file's"),
        ("", "is no file's"),
        ("x" * 2000, "too long"),
    ],
)
def test_a_name_that_is_not_safe_is_refused(name, problem):
    with pytest.raises(FramingError, match=problem):
        read(build({name: (b"1", False)})[0])


@pytest.mark.parametrize("second", ["source/A.py", "source/a.py", "SOURCE/a.PY"])
def test_names_that_a_file_system_takes_for_one_are_refused(second):
    one, two = Record("source/a.py", False, 0, 0, 0, 0), Record(second, False, 0, 0, 0, 0)
    two = dataclasses.replace(two, offset=one.end)
    listing = directory([one, two])
    data = local_header(one) + local_header(two) + listing
    with pytest.raises(FramingError, match="twice"):
        read(data + end_records(2, len(listing), two.end, COMMENT))


def test_overlapping_entries_are_refused():
    inner = Record("a", False, 0, 40, 40, 0)
    again = Record("b", False, 0, 40, 40, 0)
    listing = directory([inner, again])
    data = local_header(inner) + bytes(40)
    with pytest.raises(FramingError, match="overlap"):
        read(data + listing + end_records(2, len(listing), len(data), COMMENT))


@pytest.mark.parametrize("where", ["front", "middle", "back", "end"])
def test_bytes_that_belong_to_no_entry_are_refused(where):
    record = Record("a", False, 0, 3, 3, 1 if where == "front" else 0)
    body = local_header(record) + b"abc"
    body = {"front": b"x" + body, "middle": body + b"x"}.get(where, body)
    listing = directory([record]) + (b"x" if where == "back" else b"")
    data = (
        body + listing + end_records(1, len(listing), len(body), COMMENT) + (b"x" if where == "end" else b"")
    )
    with pytest.raises(FramingError):
        read(data)


def test_archives_of_other_programs_are_refused():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as other:
        other.writestr("a", b"abc")
        other.comment = COMMENT
    with pytest.raises(FramingError):
        read(stream.getvalue())


def test_a_directory_that_is_announced_too_large_is_refused_before_it_is_read():
    data, _ = build({"a": (b"1", False)})
    with pytest.raises(FramingError, match="more than replay accepts"):
        read(data[: -len(COMMENT) - 22] + end_records(200_000, 47, 40, COMMENT))
