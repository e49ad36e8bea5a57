"""datetime, zoneinfo, Decimal, Fraction, complex, large integers"""

import datetime
import decimal
import fractions
import zoneinfo

import torch

DAY = datetime.date(2024, 2, 3)
ZONE = zoneinfo.ZoneInfo("UTC")
MOMENT = datetime.datetime(2024, 1, 2, 7, tzinfo=ZONE)
SPAN = datetime.timedelta(hours=5)
FIXED = datetime.timezone(datetime.timedelta(hours=3))
PRICE = decimal.Decimal("3.50")
PART = fractions.Fraction(9, 4)
LARGE = 10**40


@torch._dynamo.assume_constant_result
def sizes():
    later = (MOMENT + SPAN).astimezone(FIXED)
    return DAY.month, later.hour, int(PRICE * 2), int(PART * 4), LARGE % 7, int(abs(3 + 4j))


@torch.compile(backend="eager")
def call(x):
    return x.reshape(sizes())


call(torch.ones(5))
