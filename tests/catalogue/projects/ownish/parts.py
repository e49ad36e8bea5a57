"""Refers to the models, which refer to it."""

WIDTH = 5


def scale(x):
    """Imports where it is used."""
    from .models import FACTOR

    return x * FACTOR


def widen(x):
    """Imports by name."""
    import ownish.deep.inner as inner

    return inner.repeated(x, WIDTH)
