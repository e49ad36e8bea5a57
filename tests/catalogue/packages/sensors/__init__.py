"""An installed package."""


class Probe:
    """Has a gain."""

    def __init__(self, gain):
        self.gain = gain

    def read(self, x):
        """Amplified."""
        return x * self.gain


def calibrated(x):
    """A copy, with an offset."""
    return x + 1
