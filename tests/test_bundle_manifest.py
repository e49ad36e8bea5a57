"""Manifests: what may stand in one, and versions of the format."""

from __future__ import annotations

import msgspec
import pytest
from bundles import FILE, TEXT, plain_manifest, write_bundle

from replay.bundle import FORMAT, LEDGER, BundleWriter, load, to_plain
from replay.bundle import manifest as manifests
from replay.errors import BundleError, FormatVersionError
from replay.recording import InputInfo, StorageSpec, TensorSpec


def test_a_name_that_utf8_cannot_hold_is_escaped_and_found_again(tmp_path):
    name = "/a/\udc80.py"
    with BundleWriter(tmp_path, "x") as writer:
        path = writer.commit(plain_manifest(sources={name: writer.add_source(name, TEXT)}))
    with load(path) as bundle:
        assert bundle.manifest.sources.keys() == {"/a/\\udc80.py"}
        assert bundle.source_for(name) == TEXT


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"k": {"n": object()}}, r"config\['k'\]\['n'\]: a object has no place"),
        ({"k": [1, {2}]}, r"config\['k'\]\[1\]: a set has no place"),
        ({"k": 1 << 64}, "more than 64 bits"),
        ({"k": {1.5: 0}}, "cannot be a key"),
    ],
)
def test_what_is_not_plain_is_refused_with_its_path_and_leaves_no_file(tmp_path, value, message):
    with BundleWriter(tmp_path, "x") as writer, pytest.raises((TypeError, ValueError), match=message):
        writer.commit(plain_manifest(config=value))
    assert list(tmp_path.iterdir()) == []


def test_a_value_that_contains_itself_is_refused():
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="deep"):
        to_plain(loop)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sources": {FILE: "source/gone.py"}}, "should be 'source/gone.py'"),
        ({"sources": {FILE: "README.txt"}}, "should be 'README.txt'"),
        ({"storages": {"s": StorageSpec(8, 0, 8, "cpu", "blobs/gone")}}, "should be 'blobs/gone'"),
        ({"storages": {"s": StorageSpec(8, 4, 8, "cpu", None)}}, "window"),
        ({"tensors": {"t": TensorSpec((), (), 0, "int8", "cpu", "s9")}}, "storage 's9'"),
        ({"tensors": {"t": TensorSpec((), (), 0, "int8", "cpu", None, grad="g")}}, "gradient 'g'"),
    ],
)
def test_a_manifest_that_refers_to_what_is_not_there_is_refused(tmp_path, changes, message):
    with BundleWriter(tmp_path, "x") as writer, pytest.raises(ValueError, match=message):
        writer.commit(plain_manifest(**changes))


def test_to_plain_takes_any_recording_and_makes_json_of_it():
    row = InputInfo("x", "argument", "Tensor", "float32[2]", ("t0",))
    assert to_plain(row) == {
        "name": "x",
        "role": "argument",
        "type": "Tensor",
        "summary": "float32[2]",
        "tensors": ["t0"],
    }


def encoded(**changes: object) -> bytes:
    return msgspec.msgpack.encode({"format": FORMAT, **to_plain(plain_manifest()), **changes})


def test_a_field_that_this_version_does_not_know_is_ignored():
    assert manifests.decode(encoded(novelty=[1, 2]), FORMAT, "x.rec") == manifests.decode(
        encoded(), FORMAT, "x.rec"
    )


@pytest.mark.parametrize("changes", [{"created": 5}, {"event": "party"}, {"frame": None}, {"inputs": [1]}])
def test_a_field_of_another_type_is_refused(changes):
    with pytest.raises(BundleError, match=r"x\.rec: the manifest cannot be read"):
        manifests.decode(encoded(**changes), FORMAT, "x.rec")


def test_a_manifest_that_contradicts_its_archive_about_the_version_is_refused():
    with pytest.raises(BundleError, match="another format"):
        manifests.decode(encoded(format=2), 1, "x.rec")


def test_an_older_format_is_upgraded_step_by_step():
    def one_to_two(plain):
        return {**plain, "created": plain.pop("when")}

    def two_to_three(plain):
        return {**plain, "writer": plain["writer"].upper()}

    old = {**to_plain(plain_manifest()), "format": 1, "when": "then"}
    del old["created"]
    steps = {1: one_to_two, 2: two_to_three}
    upgraded = manifests.decode(msgspec.msgpack.encode(old), 1, "x.rec", current=3, upgrades=steps)
    assert (upgraded.created, upgraded.writer) == ("then", "TORCH-REPLAY 0.1.0")


def test_every_version_has_a_line_in_the_ledger_and_a_step_to_the_next():
    assert [change.format for change in LEDGER] == list(range(1, FORMAT + 1))
    assert sorted(manifests.UPGRADES) == list(range(1, FORMAT))


def test_a_newer_format_is_refused_by_both_versions_and_says_upgrade(tmp_path):
    path = write_bundle(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"format 0001", b"format 0007"))
    with pytest.raises(
        FormatVersionError, match=r"format 7.* up to 1; upgrade it: pip install --upgrade torch-replay"
    ):
        load(path)
