"""Reached from `cargo.plain` only."""

OFFSET = 100
UNUSED = object()


def twice(value):
    return value * 2


def plus_offset(value):
    return value + OFFSET


class Base:
    kind = "base"

    def describe(self):
        return f"{self.kind} {type(self).__name__}"
