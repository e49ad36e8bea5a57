"""Decorated functions: wraps with state, a class as decorator, a decorator with arguments"""

import functools

import torch


def counted(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) * wrapper.weight

    wrapper.weight = 3
    return wrapper


class Named:
    """A decorator that is a class."""

    def __init__(self, name):
        self.name = name

    def __call__(self, function):
        function.label = self.name
        return function


@counted
@Named("halves")
def halve(x):
    return x[::2]


@torch.compile(backend="eager")
def call(x):
    return halve(x).reshape(len(halve.label), halve.weight)


call(torch.ones(9))
