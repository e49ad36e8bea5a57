"""A package that is absent on replay, and whose function the failing frame calls"""
# package: sensors
# expects: missing
# names: sensors

import sensors
import torch


@torch.compile(backend="eager")
def measure(x):
    return sensors.calibrated(x).reshape(4, -1)


measure(torch.ones(7))
