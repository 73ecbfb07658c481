"""Right and wrong answers of CHAPTER."""

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
    best = 0
    for number in numbers:
        best = max(best, number)
    return best


@rejects("largest")
def takes_the_smallest(numbers):
    return min(numbers)


@accepts("Counter")
class CountsWithAnIterator:
    def __init__(self, start):
        self.numbers = iter(range(start, start + 1000))

    def next(self):
        return next(self.numbers)


@rejects("Counter")
class MovesOnBeforeReturning:
    def __init__(self, start):
        self.value = start

    def next(self):
        self.value += 1
        return self.value


@rejects("Counter")
class NeverMovesOn:
    def __init__(self, start):
        self.value = start

    def next(self):
        return self.value


@rejects("Counter")
class StartsAtZero:
    def __init__(self, start):
        self.value = 0

    def next(self):
        self.value += 1
        return self.value - 1
