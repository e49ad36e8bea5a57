"""A recorded program's bundle is stripped, and the failure survives: the whole way, in processes of their own."""

from __future__ import annotations

import json

import pytest
from programs import python, write

from replay.bundle import load

SCRIPT = '''
"""Trains for annika@contoso.example."""
# annika wrote this
import pickle
import torch, torch._dynamo
import replay

PATIENTS = ["Jane Roe", "Richard Roe"]
LABEL = "/home/annika/labels.csv"


def no_relu(gm, example_inputs):
    """Contoso's accelerator."""
    if any("relu" in str(node.target) for node in gm.graph.nodes):
        raise ValueError("no relu here")
    return gm.forward


class Net(torch.nn.Module):
    """What annika built."""

    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(3, 3)  # small

    def forward(self, x):
        """Doc."""
        y = self.lin(x) * len(PATIENTS) + len(LABEL)
        return y.relu()  # annika says that this line fails


with replay.record("out", tensors="full"):
    try:
        torch.compile(Net(), backend=no_relu)(torch.arange(6.0).reshape(2, 3))
    except Exception:
        pass
'''


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    folder = tmp_path_factory.mktemp("strip")
    script = write(folder, "home/annika/contoso/train.py", SCRIPT)
    done = python(script, cwd=folder)
    assert done.returncode == 0, done.stderr
    [path] = (folder / "out").glob("*.rec")
    return path


def everything(path):
    with load(path) as bundle:
        bundle.verify()
        texts = [bundle.source(entry) for entry in bundle.manifest.sources.values()]
        return repr(bundle.manifest) + bundle.values().decode("utf-8", "replace") + "".join(texts)


def test_the_failure_survives_and_nothing_of_the_person_is_left(recording):
    before = recording.read_bytes()
    done = python("-m", "replay", "strip", recording, "--json", cwd=recording.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["survival"] == "survived"
    assert found["outcome"]["status"] == "reproduced"
    text = everything(found["bundle"])
    for gone in ("annika", "ontoso", "that this line fails"):
        assert gone not in text, gone
    assert "Jane Roe" in text  # a value of the program's: only --drop-global takes it out
    with load(found["bundle"]) as bundle:
        assert bundle.manifest.substitution.survived is True
        assert not [name for name in bundle.manifest.entries if name.startswith("blobs/")]
    assert recording.read_bytes() == before


def test_a_global_that_the_failure_needs_is_told_to_be_missing(recording):
    words = ("strip", recording, "--drop-global", "PATIENTS", "-o", "dropped.rec", "--json")
    done = python("-m", "replay", *words, cwd=recording.parent)
    found = json.loads(done.stdout)
    assert "global PATIENTS" in found["removed"]
    assert (found["survival"], done.returncode) == ("lost", 3)
    assert "the stripped bundle missing" in found["reason"]
    assert "Jane Roe" not in everything(recording.parent / "dropped.rec")
