"""Run where the package `cargo` is absent: load every case and run its check. Arguments: dumped file, result file."""

import json
import linecache
import pickle
import sys
import traceback

from replay import shipping


class Tensors:
    def __init__(self, kept):
        self.get = kept.__getitem__

    def get_storage(self, key):
        return self.get(key).untyped_storage()

    def device(self, name):
        return name


def read(path, with_torch):
    if with_torch:
        import torch

        return torch.load(path, weights_only=False)
    with open(path, "rb") as file:
        return pickle.load(file)


def checked(case):
    before, lines = dict(sys.modules), dict(linecache.cache)
    with shipping.loaded(case["values"], sources=case["sources"], tensors=Tensors(case["tensors"])) as loaded:
        assert all(sys.modules[name].__name__ == name for name in case["modules"])
        loaded.root["check"](loaded.root["value"])
    assert "cargo" not in sys.modules and all(sys.modules.get(name) is before[name] for name in before)
    assert {name: linecache.cache.get(name) for name in case["sources"]} == {
        name: lines.get(name) for name in case["sources"]
    }


def main(source, target, with_torch):
    results = {}
    for name, case in read(source, with_torch == "torch").items():
        problem = case["problem"]
        if problem is None:
            try:
                checked(case)
            except Exception:
                problem = traceback.format_exc()
        results[name] = problem
    with open(target, "w") as file:
        json.dump(results, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
