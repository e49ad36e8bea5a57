"""Loggers, with adapters and a filter of the user's"""

import logging

import torch


class Quiet(logging.Filter):
    """Lets nothing pass."""

    def filter(self, record):
        return False


LOG = logging.getLogger("catalogue.loggers")
LOG.setLevel(logging.ERROR)
ADAPTER = logging.LoggerAdapter(logging.getLogger(__name__), {"rows": 4})
QUIET = Quiet("x")


class Model(torch.nn.Module):
    """Keeps its logger, as many do."""

    def __init__(self):
        super().__init__()
        self.log, self.quiet = LOG, QUIET

    def forward(self, x):
        return x.reshape(rows(), 7)


@torch._dynamo.assume_constant_result
def rows():
    LOG.info("not shown")
    return ADAPTER.extra["rows"] + len(QUIET.name) + len(LOG.name)


torch.compile(Model(), backend="eager")(torch.ones(3))
