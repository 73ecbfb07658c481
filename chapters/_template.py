# %% [markdown] you_learn_to="say in half a line what this is good for"
r"""
# Chapter NN · The topic in words that a reader would search for

A sentence that says what this chapter claims.

*About 30 minutes · builds on [Chapter 0](ch00_start.ipynb)*

**What you will be able to do**

- say in one line what the reader can do afterwards;
- a second line, with a verb that can be seen: *measure*, *write*, *explain*.
"""

# %%
from coursekit import begin, budget, check, compare_times, explain, hint, measured, passed, predict, progress, puzzle
from coursekit import quiz, review, solution

begin("CHAPTER")

# %% [markdown] tags=["notes"]
r"""
What to say here, how long it takes (2 minutes), and which question the room usually asks.
"""

# %% [markdown]
r"""
## A heading states something

One idea in a short paragraph, one sentence a line, and a picture where people would rather look.
A term of the field, such as [actor](../docs/glossary.md#actor), is linked to the glossary at its first use.

![A function takes a value and gives one back](../img/CHAPTER.svg)

Now write it yourself: `double` returns twice its argument.
"""


# %%
def double(x):
    """Return twice x."""
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION


# %%
check("double", double)

# %% [markdown] tags=["solution"]
r"""
`x + x` is as good, and `x * 2` also works for a list, where it repeats the list.
"""

# %%
### BEGIN SOLUTION
what_is_double = "b"
### END SOLUTION

# %%
quiz("what_is_double", what_is_double)

# %% [markdown]
r"""
## A second heading, with a one-line answer

`largest` returns the largest number of a list.
"""


# %%
def largest(numbers):
    """Return the largest of the numbers."""
    ### BEGIN SOLUTION
    return max(numbers)
    ### END SOLUTION


# %%
check("largest", largest)

# %%
### BEGIN SOLUTION
largest_of_none = "c"
### END SOLUTION

# %%
quiz("largest_of_none", largest_of_none)

# %% [markdown]
r"""
## A list is summed faster than a generator

**Predict:** how many times slower does `sum` add 100,000 numbers that a generator yields one by one?
"""

# %% tags=["demo"]
predict("generator", ...)  # times slower

# %% tags=["demo"]
numbers = list(range(100_000))
ways = {"list": lambda: sum(numbers), "generator": lambda: sum(number for number in numbers)}
comparison = compare_times(ways, repeats=budget(20, 5))
comparison.plot()
display(comparison)
measured("generator", comparison.ratio)

# %% [markdown]
r"""
The interval says how sure this machine is of the ratio.
Was yours inside it?

`Counter` is a class, so the check drives it with a *probe*: it makes one, calls `next` a few times, and looks at what comes back.
"""


# %%
class Counter:
    """Count up from a start."""

    def __init__(self, start):
        self.value = start

    def next(self):
        """Return the value, then move on by one."""
        ### BEGIN SOLUTION
        value = self.value
        self.value += 1
        return value
        ### END SOLUTION


# %%
check("Counter", Counter)

# %%
if passed("Counter"):
    counter = Counter(start=3)
    print(counter.next(), counter.next())

# %%
### BEGIN SOLUTION
why_a_probe = "a"
### END SOLUTION

# %%
quiz("why_a_probe", why_a_probe)

# %% [markdown]
r"""
## What you can do now

- one line for each promise of the opening.

## Traps

- A trap that this chapter met, and how to see it.

## Read on

- A paper or a documentation page, with its address.
"""
