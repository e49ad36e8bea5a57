"""A module in it."""


def repeated(x, n):
    """Rows, repeated."""
    return x.repeat(n, 1)
