"""Right and wrong answers of CHAPTER."""

from itertools import count, repeat

from tests.answers import accepts, rejects


@accepts("double")
def adds(x):
    return x + x


@rejects("double")
def squares(x):
    return x * x


@rejects("double")
def prints_instead_of_returning(x):
    print(2 * x)


@rejects("double")
def adds_two(x):
    return x + 2


@accepts("largest")
def sorts_first(numbers):
    return sorted(numbers)[-1]


@rejects("largest")
def takes_the_last(numbers):
    return numbers[-1]


@rejects("largest")
def starts_from_zero(numbers):
    return max([0, *numbers])


@rejects("largest")
def takes_the_smallest(numbers):
    return min(numbers)


@accepts("Counter")
class CountsWithAnIterator:
    def __init__(self, start):
        self.numbers = count(start)

    def next(self):
        return next(self.numbers)


@rejects("Counter")
class MovesOnBeforeReturning(CountsWithAnIterator):
    def __init__(self, start):
        self.numbers = count(start + 1)


@rejects("Counter")
class NeverMovesOn(CountsWithAnIterator):
    def __init__(self, start):
        self.numbers = repeat(start)


@rejects("Counter")
class StartsAtZero(CountsWithAnIterator):
    def __init__(self, start):
        self.numbers = count(0)
