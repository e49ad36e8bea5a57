"""The register of cases: how a value is made where the package exists, and what must hold of it where it does not."""

CASES = {}


class Case:
    def __init__(self, make, check, missing):
        self.make, self.check, self.missing = make, check, missing


def case(make, missing=()):
    """Register the decorated function as the check of what `make` makes."""

    def register(check):
        CASES[check.__name__] = Case(make, check, tuple(missing))
        return check

    return register


def raises(kind, function, *arguments):
    try:
        function(*arguments)
    except Exception as error:
        if type(error).__name__ != kind:
            raise
        return error
    raise AssertionError(f"no {kind}")
