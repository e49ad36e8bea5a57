"""Weak references, proxies and weak collections"""

import weakref

import torch


class Node:
    """Knows its parent weakly."""

    def __init__(self, n, parent=None):
        self.n = n
        self.parent = parent and weakref.ref(parent)
        self.children = []
        if parent:
            parent.children.append(self)


ROOT = Node(4)
LEAF = Node(5, ROOT)
PROXY = weakref.proxy(ROOT)
DEAD = weakref.ref(Node(1))
BY_KEY = weakref.WeakKeyDictionary({ROOT: 6})
BY_VALUE = weakref.WeakValueDictionary(leaf=LEAF)
NODES = weakref.WeakSet([ROOT, LEAF])


@torch._dynamo.assume_constant_result
def sizes():
    assert DEAD() is None and LEAF.parent() is ROOT
    return PROXY.n, LEAF.parent().n + 1, BY_KEY[ROOT], BY_VALUE["leaf"].n + 2, len(NODES)


@torch.compile(backend="eager")
def call(x, node):
    return x.reshape(*sizes(), node.parent().n)


call(torch.ones(7), LEAF)
