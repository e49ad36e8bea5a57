"""`inspect --privacy`: what leaves the machine with a bundle, and what in it looks like a secret."""

from __future__ import annotations

import io
import json
import pickle
import re
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from bundles import ENVIRONMENT, plain_manifest
from click.testing import CliRunner
from gold import assert_gold

from replay import giveaways
from replay.bundle import BundleWriter, load
from replay.cli.application import application
from replay.contents import privacy, secrets
from replay.contents.privacy import privacy_of
from replay.contents.secrets import masked
from replay.recording import InputInfo, StorageSpec, TensorSpec
from replay.report.plain import privacy_json
from replay.report.privacy import draw_privacy

ROOT = Path(__file__).parent.parent
FILE = "/home/ann/secret-project/train.py"
GITHUB = (
    "ghp_" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY2zA4"
)  # put together here, so that no scanner finds a key in this file
AWS = "AKIA" + "QWERTYUIOPASDFGH"
PASSWORD = "correct" + "Horse9battery"

TEXT = f'''"""Written by Ann <ann.smith@example.com>."""

# the cluster's
URL = "https://ann:{PASSWORD}@db.example.com/x"


def step(x):
    return x.relu()
'''


def write(folder, stem="x", **changes):
    with BundleWriter(folder, stem) as writer:
        entry = writer.add_source(FILE, TEXT)
        writer.add_values(pickle.dumps({"api_key": GITHUB, "sizes": [1, 2.5], "raw": b"abc"}, 4))
        storages = {
            "s0": StorageSpec(8, 0, 8, "cpu", writer.add_blob("s0", 8, [bytes(8)])),
            "s1": StorageSpec(4096, 0, 4096, "cpu", None),
        }
        frame = replace(plain_manifest().frame, file=FILE, entry=entry)
        given = {
            "frame": frame,
            "sources": {FILE: entry},
            "storages": storages,
            "tensors": {"t0": TensorSpec((2,), (1,), 0, "float32", "cpu", "s0")},
            "inputs": (InputInfo("x", "argument", "torch.Tensor", "float32[2] cpu", ("t0",)),),
            "environment": replace(ENVIRONMENT, variables={"DEPLOY_KEY": AWS, "OMP_NUM_THREADS": "2"}),
            "config": {"inductor.cache_dir": "/home/ann/cache/inductor"},
            **changes,
        }
        return writer.commit(plain_manifest(**given))


@pytest.fixture(autouse=True)
def _named(monkeypatch):
    monkeypatch.setattr(privacy.socket, "gethostname", lambda: "annslaptop")
    monkeypatch.setattr(privacy.getpass, "getuser", lambda: "asmith")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    with load(write(tmp_path_factory.mktemp("privacy"))) as bundle:
        return privacy_of(bundle)


def drawn(found):
    stream = io.StringIO()
    draw_privacy(found, stream)
    return stream.getvalue()


def of_kind(found, kind):
    return next(one for one in found.leaving if one.kind == kind)


def test_secrets_are_found_in_sources_values_and_variables(found):
    where = {(one.kind, one.where.partition(",")[0]) for one in found.secrets}
    assert ("GitHub token", "values.pkl") in where or ("GitHub Token", "values.pkl") in where
    assert ("Basic Auth Credentials", f"{FILE}:4") in where
    assert ("e-mail address", f"{FILE}:1") in where
    assert ("AWS Access Key", "manifest environment.variables.DEPLOY_KEY") in where
    assert found.detector.startswith("detect-secrets ")


def test_no_secret_is_shown_in_full(found):
    text = drawn(found) + privacy_json(found)
    for secret in (GITHUB, AWS, PASSWORD):
        assert secret not in text


def test_each_kind_has_its_size(found):
    assert of_kind(found, "sources").size == len(TEXT)
    assert "1 line of comments" in of_kind(found, "sources").summary
    assert of_kind(found, "tensors").size == 8
    assert of_kind(found, "tensors").summary == "1 with their real values, 1 as metadata alone"
    assert of_kind(found, "tensors").items[0].detail == "real values of x"
    assert (
        "2 numbers" not in of_kind(found, "values").summary or "numbers" in of_kind(found, "values").summary
    )
    assert "3 bytes of byte strings" in of_kind(found, "values").summary
    assert {item.name for item in of_kind(found, "variables").items} == {"DEPLOY_KEY", "OMP_NUM_THREADS"}
    assert {item.name for item in of_kind(found, "packages").items} == {"numpy"}


def test_paths_and_people_are_named(found):
    assert "/home/ann/secret-project" in {item.name for item in of_kind(found, "paths").items}
    people = {(item.name, item.detail.partition(",")[0]) for item in of_kind(found, "people").items}
    assert ("ann", "user name in a path") in people
    assert ("ann.smith@example.com", "e-mail address") in people


def test_this_machines_names_are_found_wherever_they_stand(tmp_path):
    path = write(tmp_path, config={"x": "http://annslaptop:8080", "y": "asmith was here"})
    with load(path) as bundle:
        people = {item.name: item.detail for item in of_kind(privacy_of(bundle), "people").items}
    assert "host name" in people["annslaptop"]
    assert "user name" in people["asmith"]


def test_the_report_looks_as_the_gold_file(found):
    text = drawn(replace(found, bundle="x.rec", size=2000, detector="detect-secrets 1.5.0"))
    assert_gold("privacy.txt", re.sub(r"byte \d+", "byte N", text))
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("path", sorted((ROOT / "recordings").glob("*.rec")), ids=lambda path: path.stem)
def test_real_recordings_give_no_false_alarm(path):
    with load(path) as bundle:
        assert privacy_of(bundle).secrets == ()


def test_looking_for_secrets_asks_no_network(tmp_path, monkeypatch):
    def refused(*arguments, **options):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    with load(write(tmp_path)) as bundle:
        assert privacy_of(bundle).secrets


def test_without_the_detector_well_known_forms_are_found_and_the_report_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(secrets, "detector_name", lambda: "")
    with load(write(tmp_path)) as bundle:
        found = privacy_of(bundle)
    assert {"GitHub token", "AWS key", "password in an address"} <= {one.kind for one in found.secrets}
    assert "detect-secrets is not installed" in drawn(found)


def test_a_line_that_is_made_to_be_slow_is_not():
    with secrets.detector() as look:
        for text in ("eyJ" * 20_000, "http://" * 8_000, "a" * 60_000, "password=" * 6_000, "a@" * 20_000):
            begun = time.process_time()
            list(look(text))
            assert time.process_time() - begun < 4


def test_of_endless_text_only_the_beginning_is_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr(secrets, "MOST_TEXT", 1 << 20)
    monkeypatch.setattr(secrets, "_look", lambda plugins, keep, line: iter(()))
    with load(write(tmp_path, config={"x": "y" * (2 << 20)})) as bundle:
        assert privacy_of(bundle).unread == ("secrets were looked for in the first 1 million characters",)


def test_a_mask_never_shows_more_than_a_third():
    for secret in ("", "ab", "abcdef", GITHUB):
        shown = masked("x", secret).partition("...")[0]
        assert len(shown) <= max(len(secret) // 3, 0)


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        *(
            (name, True)
            for name in ("DB_PASSWORD", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "api_key", "TOKEN", "MY_AUTH")
        ),
        *(
            (name, False)
            for name in ("TOKENIZERS_PARALLELISM", "OMP_NUM_THREADS", "AUTHOR", "num_tokens", "KEYS")
        ),
    ],
)
def test_which_names_are_secret(name, secret):
    assert giveaways.is_secret_name(name) is secret


def test_keys_are_told_by_their_form():
    data = f"x {GITHUB} y {AWS} z".encode()
    assert giveaways.tokens_in(data) == {"GitHub token": 1, "AWS key": 1}
    assert giveaways.tokens_in(b"self.hf_model = gh_pages; sk-learn AKIA") == {}


def test_the_command_prints_text_or_json_and_no_control_character(tmp_path):
    evil = "a\x1b[31m\x9b2J\u202e"
    path = write(tmp_path, config={evil: evil}, error=replace(plain_manifest().error, message=evil))
    text = CliRunner().invoke(application, ["inspect", str(path), "--privacy"])
    assert text.exit_code == 0
    assert "What looks like a secret" in text.output
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text.output)
    plain = CliRunner().invoke(application, ["inspect", str(path), "--privacy", "--json"])
    assert json.loads(plain.output)["secrets"]
    assert CliRunner().invoke(application, ["inspect", str(path), "--privacy", "--imports"]).exit_code == 2


def test_the_command_imports_no_torch(tmp_path):
    path = write(tmp_path)
    code = (
        "import sys; from replay.cli import main\n"
        f"assert main(['inspect', {str(path)!r}, '--imports']) == 0\n"
        "assert 'detect_secrets' not in sys.modules\n"
        f"assert main(['inspect', {str(path)!r}, '--privacy']) == 0\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True)
