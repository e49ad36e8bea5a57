"""pathlib paths, compiled regular expressions, string templates, UUIDs"""

import pathlib
import re
import string
import uuid

import torch

HERE = pathlib.PurePosixPath("data/part-007.bin")
FOLDER = pathlib.Path("weights") / "layer"
NUMBER = re.compile(r"-(?P<n>\d+)")
TEMPLATE = string.Template("$a$a")
IDENTITY = uuid.UUID(int=11)


@torch._dynamo.assume_constant_result
def sizes():
    text = TEMPLATE.substitute(a="xy")
    return int(NUMBER.search(HERE.name)["n"]), len(FOLDER.parts), len(text), IDENTITY.int


@torch.compile(backend="eager")
def call(x):
    return x.reshape(sizes())


call(torch.ones(5))
