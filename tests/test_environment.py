"""Versions, hardware, environment variables."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from programs import here, no_relu, recorded

from replay.torch_adapter import devices, environment

PRIVATE = [
    "HOME",
    "PATH",
    "AWS_SECRET_ACCESS_KEY",
    "HF_TOKEN",
    "TORCHDYNAMO_DEBUG_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "TORCHINDUCTOR_REMOTE_CACHE_URL",
    "TORCHINDUCTOR_SOME_PATH",
    "TORCH_COMPILE_DEBUG_DIR",
    "XTORCHDYNAMO_VERBOSE",
    "TORCHDYNAMO",
]
TOLD = [
    "TORCHDYNAMO_VERBOSE",
    "TORCHINDUCTOR_MAX_AUTOTUNE",
    "OMP_NUM_THREADS",
    "CUBLAS_WORKSPACE_CONFIG",
    "PYTHONHASHSEED",
]


def test_only_variables_of_the_allow_list_are_taken(monkeypatch):
    for name in PRIVATE + TOLD:
        monkeypatch.setenv(name, "0")
    assert set(environment.capture({}).variables) & set(PRIVATE + TOLD) == set(TOLD)


def test_no_recorded_variable_can_set_another(monkeypatch):
    recorded_variables = {
        "LD_PRELOAD": "/evil.so",
        "PATH": "/x",
        "TORCHDYNAMO_VERBOSE": "1",
        "TORCHDYNAMO_REPRO_AFTER": "aot",
    }
    assert environment.variables_to_set(recorded_variables) == {"TORCHDYNAMO_VERBOSE": "1"}


def test_this_machine_is_named():
    now = environment.capture({"numpy": "2.0"})
    assert now.torch == torch.__version__
    assert now.python.count(".") == 2
    assert now.packages == {"numpy": "2.0"}
    assert environment.drift(now, now) == []


def test_every_difference_that_may_matter_is_drift():
    now = environment.capture({"numpy": "2.0"})
    other = replace(
        now, torch="3.0", python="3.13.1", gpus=("NVIDIA H200",), packages={"numpy": "2.1", "einops": "0.8"}
    )
    names = {one.name: (one.recorded, one.here) for one in environment.drift(other, now)}
    assert names == {
        "torch": ("3.0", now.torch),
        "python": ("3.13.1", now.python),
        "gpus": ("NVIDIA H200", ", ".join(now.gpus) or "none"),
        "package numpy": ("2.1", "2.0"),
        "package einops": ("0.8", "not installed"),
    }


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
@pytest.mark.parametrize(
    ("name", "nearest"),
    [("cpu", "cpu"), ("meta", "meta"), ("cuda:1", "cpu"), ("cuda", "cpu"), ("mps", "cpu")],
)
def test_a_device_that_is_not_here_becomes_the_cpu(name, nearest):
    assert devices.nearest(name) == nearest


def test_recorded_variables_hold_for_the_replay_and_are_put_back(tmp_path, monkeypatch):
    import os

    seen = []

    def backend(gm, example_inputs):
        import os

        raise ValueError(
            os.environ.get("TORCHINDUCTOR_TEST_FLAG", "unset") + os.environ.get("TORCHINDUCTOR_OTHER", "")
        )

    def program():
        torch.compile(lambda x: x.relu(), backend=backend)(torch.ones(2))

    monkeypatch.setenv("TORCHINDUCTOR_TEST_FLAG", "recorded")
    (bundle,) = recorded(tmp_path, program).bundles
    monkeypatch.delenv("TORCHINDUCTOR_TEST_FLAG")
    for env in (None, {"TORCHINDUCTOR_TEST_FLAG": "chosen", "TORCHINDUCTOR_OTHER": "!"}):
        before = dict(os.environ)
        seen.append(here(bundle, env=env).error.message)
        assert dict(os.environ) == before
    assert "recorded" in seen[0]
    assert "chosen!" in seen[1]


def test_a_failing_name_is_not_drift_within_one_machine(tmp_path):
    def program():
        torch.compile(lambda x: x.relu(), backend=no_relu)(torch.ones(2))

    assert here(recorded(tmp_path, program).bundles[0]).drift == ()
