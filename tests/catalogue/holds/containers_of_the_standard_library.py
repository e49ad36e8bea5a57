"""SimpleNamespace, ChainMap, deque, Counter, defaultdict, OrderedDict, mappingproxy, frozenset"""

import collections
import types

import torch

NAMESPACE = types.SimpleNamespace(rows=3, inner=types.SimpleNamespace(columns=4))
CHAIN = collections.ChainMap({"a": 1}, {"a": 9, "b": 2})
QUEUE = collections.deque([1, 2, 3, 4], maxlen=3)
COUNTS = collections.Counter("aabbb")
LISTS = collections.defaultdict(list, known=[1, 2, 3])
ORDERED = collections.OrderedDict(z=1, a=2)
FROZEN = types.MappingProxyType({"k": 5})
SET = frozenset({1, 5, 7})


@torch._dynamo.assume_constant_result
def sizes():
    queue, lists, ordered = QUEUE.copy(), LISTS.copy(), ORDERED.copy()
    queue.append(6)
    lists["new"].append(1)
    ordered.move_to_end("z")
    return (
        *(
            CHAIN["a"] + CHAIN["b"],
            sum(queue),
            COUNTS.most_common(1)[0][1],
            len(lists["known"] + lists["new"]),
        ),
        *(list(ordered).index("z") + 1, FROZEN["k"], max(SET)),
    )


@torch.compile(backend="eager")
def call(x):
    return x.reshape(NAMESPACE.rows, NAMESPACE.inner.columns, *sizes())


call(torch.ones(13))
