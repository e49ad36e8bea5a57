"""Recording warns of what people regret to have sent; once for each bundle, and cheaply."""

from __future__ import annotations

import logging
import time
from dataclasses import replace

import pytest
import torch
from bundles import ENVIRONMENT, plain_manifest
from programs import no_relu

import replay
from replay.bundle import BundleWriter
from replay.recorder import regrets
from replay.recording import StorageSpec

# put together here, so that no scanner finds a key in this file
GITHUB = "ghp_" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY2zA4"


def write(folder, *, values=b"\x80\x04N.", blob=b"", text="x = 1\n", **changes):
    with BundleWriter(folder, "x") as writer:
        entry = writer.add_source("/x/y.py", text)
        writer.add_values(values)
        storage = StorageSpec(len(blob), 0, len(blob), "cpu", writer.add_blob("s0", len(blob), [blob]))
        return writer.commit(plain_manifest(sources={"/x/y.py": entry}, storages={"s0": storage}, **changes))


def test_an_ordinary_bundle_is_nothing_to_regret(tmp_path):
    assert regrets.regrets_of(write(tmp_path)) == ""


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"values": b"\x80\x04\x8c\x28" + GITHUB.encode() + b"."}, "looks like a key (GitHub token)"),
        ({"text": f"TOKEN = '{GITHUB}'\n"}, "looks like a key (GitHub token)"),
        (
            {"environment": replace(ENVIRONMENT, variables={"TORCH_COMPILE_TOKEN": "x"})},
            "secret-like names (TORCH_COMPILE_TOKEN)",
        ),
        ({"blob": bytes(17 << 20)}, "17 MB of real tensor values"),
    ],
    ids=["values", "source", "variable", "weights"],
)
def test_each_kind_is_told_with_the_commands_that_show_and_remove_it(tmp_path, content, words):
    path = write(tmp_path, **content)
    told = regrets.regrets_of(path)
    assert words in told
    assert f"python -m replay inspect --privacy {path}" in told
    assert f"python -m replay strip {path}" in told
    assert GITHUB not in told


def test_looking_through_a_bundle_is_cheap(tmp_path):
    path = write(tmp_path, values=b"\x80\x04B\x00\x00\x20\x00" + b"abc " * (512 << 10) + b".")
    regrets.regrets_of(path)
    begun = time.process_time()
    regrets.regrets_of(path)
    assert time.process_time() - begun < 1


def test_recording_a_token_is_told_once_for_each_bundle(tmp_path, caplog):
    token = GITHUB

    def scale(x):
        return x.relu() if token else x

    with caplog.at_level(logging.WARNING, "replay"), replay.record(tmp_path, tensors="metadata") as rec:
        for _ in range(2):
            with pytest.raises(Exception, match="relu"):
                torch.compile(scale, backend=no_relu)(torch.ones(3))
    told = [one.getMessage() for one in caplog.records if "you may not want to send" in one.getMessage()]
    assert len(rec.bundles) == 1
    assert len(told) == 1
    assert "GitHub token" in told[0]
    assert str(rec.bundles[0]) in told[0]


def test_what_goes_wrong_while_looking_is_a_warning_and_no_lost_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(regrets, "_signs", lambda bundle: 1 / 0)

    def scale(x):
        return x.relu()

    told = pytest.warns(replay.RecordingWarning, match="could not look through")
    with told, replay.record(tmp_path, tensors="metadata") as rec, pytest.raises(Exception, match="relu"):
        torch.compile(scale, backend=no_relu)(torch.ones(3))
    assert rec.lost == 0
    assert len(rec.bundles) == 1
