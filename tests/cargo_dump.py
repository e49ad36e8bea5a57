"""Run where the package `cargo` exists: dump every case of a module. Arguments: module, result file."""

import importlib
import pickle
import sys
import traceback

from replay import shipping


class Tensors:
    """A sink that keeps the tensors as they are."""

    def __init__(self):
        self.kept = {}

    def add(self, tensor):
        torch = sys.modules["torch"]
        ordinary = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided
        return self.keep(tensor) if ordinary else None

    def pin(self, tensor):
        """Everything is kept."""

    def add_storage(self, storage):
        torch = sys.modules["torch"]
        return self.keep(torch.empty(0, dtype=torch.uint8).set_(storage))

    def keep(self, tensor):
        key = f"t{len(self.kept)}"
        self.kept[key] = tensor
        return key


def dumped(case):
    tensors = Tensors()
    value = case.make()
    shipment = shipping.dump({"value": value, "check": case.check}, tensors=tensors)
    problem = None
    got = [entry.name.rpartition(".")[2] for entry in shipment.missing]
    if sorted(got) != sorted(case.missing):
        problem = f"missing: {shipment.missing}"
    return {
        "values": shipment.values,
        "sources": shipment.sources,
        "modules": shipment.modules,
        "packages": shipment.packages,
        "missing": [(entry.name, entry.type, entry.reason) for entry in shipment.missing],
        "tensors": tensors.kept,
        "problem": problem,
    }


def main(module, target):
    importlib.import_module(f"cargo.{module}")
    results = {}
    for name, case in importlib.import_module("cargo.cases").CASES.items():
        try:
            results[name] = dumped(case)
        except Exception:
            results[name] = {"problem": traceback.format_exc()}
    with open(target, "wb") as file:
        if "torch" in sys.modules:
            sys.modules["torch"].save(results, file)
        else:
            pickle.dump(results, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
