"""The judge's side of chapter 5."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import accumulate, zip_longest
from typing import Any

from numpy.random import Generator

from coursekit.given import ch05_faults as given
from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import agree, expect, expect_equal

DEATHS = ("ActorDiedError", "RayActorError")
CRASHES = ("WorkerCrashedError", *DEATHS)
TIMEOUTS = ("GetTimeoutError", "TimeoutError")
FAILURES = {"dies": "WorkerCrashedError", "ValueError": "ValueError", "KeyError": "KeyError"}  # names of errors by act
Ask = Callable[[int, float, str, list[str]], AbstractContextManager[tuple[given.Attempted, Any]]]


@exercise(
    points=2,
    minutes=10,
    needs={"CPU": 4},
    hints=[
        "Launch all calls before you wait for the first. Then fetch them one by one, each in a `try` of its own.",
        "A function that raised arrives as a `RayTaskError`, and its `cause` is the original exception. A process that died "
        "arrives as something else: the table above has its name.",
        "`ray.remote(function).options(max_retries=0)` makes tasks that Ray does not try again.",
    ],
)
def survivors(answer: Answer, rng: Generator) -> None:
    """Give every reference a `try` of its own, and write down what each `except` caught."""
    # Long: each of the calls ends in its own way (a value, an error, a death), and two of them meet.
    plan = _eight_ends(rng)
    seen = answer.probe(given.fetch_all, plan)
    expect(not seen["here"], "You called `function(x)` in your notebook's own process: make each call a task.")
    results, errors = _two_dicts(seen["returned"])
    failed = {x: FAILURES[act] for x, act in plan.items() if act in FAILURES}
    wanted = {x: {"None": None, "0": 0}.get(act, x * x) for x, act in plan.items() if act not in FAILURES}
    with answer.case(
        f"calls that returned a value, some of them None or 0: {list(wanted)}; that failed: {list(failed)}"
    ):
        _expect_none_lost(results, errors, wanted)
        _judge_errors(errors, failed)
        have = list(results)
        expect_equal(results, wanted, f"The results have {have}, or other values than the calls returned.")
        _expect_one_launch(seen)


def _eight_ends(rng: Generator) -> dict[int, str]:
    """Return eight inputs, each with how its call ends; an exception comes first."""
    acts = ["KeyError", *rng.permutation(["dies", "ValueError", "None", "0", "meets", "meets", "works"]).tolist()]
    return dict(zip(rng.choice(range(2, 100), size=8, replace=False).tolist(), acts, strict=True))


def _two_dicts(returned: Any) -> tuple[dict, dict]:
    """Return the results and the errors."""
    expect(
        isinstance(returned, list | tuple) and len(returned) == 2 and all(isinstance(part, dict) for part in returned),
        "`survivors` must return two dicts: the results, and the errors.",
    )
    return returned[0], returned[1]


def _expect_none_lost(results: dict, errors: dict, wanted: dict) -> None:
    """Check that each call that returned a value is among the results."""
    lost = [x for x in wanted if x not in results]
    called_failed = [x for x in lost if x in errors]
    expect(
        not called_failed,
        f"The results lack {lost}, and the errors have {called_failed} of them: did those calls fail?",
    )
    expect(not lost, f"The results lack {lost}.")


def _judge_errors(errors: dict, wanted: dict) -> None:
    """Say which failure is missing, or under which name it stands."""
    lost = [x for x in wanted if x not in errors]
    expect(not lost, f"The errors say nothing about {lost}.")
    wrong = [x for x in wanted if not agree(errors[x], wanted[x])]
    said = [errors[x] for x in wrong]
    expect(
        not wrong,
        f"For {wrong} the errors say {said}. Give the name of the original exception's "
        "type, or of Ray's where the process died.",
    )
    extra = [x for x in errors if x not in wanted]
    expect(not extra, f"The calls for {extra} returned a value, and yet they are among the errors.")


def _expect_one_launch(seen: given.Fetched) -> None:
    """Check that each call ran once, and that two of them met."""
    repeated = [x for x, count in seen["calls"].items() if count != 1]
    times = [seen["calls"][x] for x in repeated]
    expect(not repeated, f"Each call is made once; those for {repeated} ran {times} times.")
    expect(seen["met"], "Two calls never ran at the same time: do you launch everything before you wait?")


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 4},
    hints=[
        "A loop over the attempts: launch, `ray.get` with a time-out, return. Which two exceptions let the loop go on?",
        "Try again after `WorkerCrashedError` and `GetTimeoutError`. Everything else that `ray.get` raises is for the caller. Which "
        "`except` must stand first, so that you do not take an error of Ray's which the *function* raised for a death?",
        "After a time-out, and only then, the task still runs: `ray.cancel(ref, force=True)`. Ray must not retry by itself: "
        "`max_retries=0`.",
        "Keep the exception under another name (`last = error`): Python forgets `error` at the end of the `except` block.",
    ],
)
def resilient_call(answer: Answer, rng: Generator) -> None:
    """Count the attempts yourself, repeat only what another attempt can fix, and end what you no longer wait for."""
    x = int(rng.integers(10, 1000))

    @contextmanager
    def ask(attempts: int, seconds: float, what: str, plan: list[str]) -> Iterator[tuple[given.Attempted, Any]]:
        call = f"resilient_call(function, {x}, attempts={attempts}, seconds={seconds})"
        with answer.case(f"{call}, where the function {what}"):
            seen = answer.probe(given.call_faulty, x, plan, attempts, seconds)
            yield seen, seen["raised"] or seen["value"]

    _judge_raises(ask, x)
    _judge_deaths(ask, x)
    _judge_hangs(ask, x)


def _judge_raises(ask: Ask, x: int) -> None:
    """What the function itself raises is for the caller, also where it is an error of Ray's."""
    with ask(3, 300, "raises a KeyError", ["raises"] * 6) as (seen, ended):
        expect(seen["calls"] == 1, f"It was called {seen['calls']} times, though it raises the same again.")
        passed_on = seen["raised"] == "KeyError" and str(x) in seen["text"]
        expect(passed_on, f"The caller must see that KeyError; it ended with {ended!r}.")
    own = "raises a WorkerCrashedError, because a task of its own died"
    with ask(3, 300, own, ["raises Ray's"] * 6) as (seen, ended):
        once = seen["calls"] == 1
        expect(once, f"It was called {seen['calls']} times, though its own process lives: it *raised* that error.")
        passed_on = seen["raised"] == "WorkerCrashedError"
        expect(passed_on, f"The caller must see that WorkerCrashedError; it ended with {ended!r}.")


def _judge_deaths(ask: Ask, x: int) -> None:
    """A death is worth another attempt, as long as one is left."""
    with ask(2, 300, "loses its process once, then works", ["dies"]) as (seen, ended):
        expect_equal(ended, x * x, f"After the death it deserved another attempt; it ended with {ended!r}.")
        expect(seen["calls"] == 2, f"It was called {seen['calls']} times; the second attempt works.")
    with ask(2, 300, "loses its process every time", ["dies"] * 3) as (seen, ended):
        expect(seen["calls"] == 2, f"It was called {seen['calls']} times; two attempts were allowed.")
        expect(seen["raised"] in CRASHES, f"That must end with the last error; it ended with {ended!r}.")


def _judge_hangs(ask: Ask, x: int) -> None:
    """A hanging call is cancelled when its time is over, and another attempt may work."""
    with ask(1, 1.5, "hangs", ["hangs"]) as (seen, ended):
        expect(seen["calls"] <= 1, f"It was called {seen['calls']} times; one attempt was allowed.")
        expect(seen["raised"] in TIMEOUTS, f"That must end with the time-out; it ended with {ended!r}.")
        expect(
            not seen["went_on"], "The task kept running after the time-out, and kept its slot: you did not cancel it."
        )
    # many attempts: where a new process takes longer than `seconds` to start, several of them pass
    # the others take time: an attempt that has none must not find its result there at once
    slow = ["hangs", *["takes time"] * 60]
    with ask(60, 2, "hangs the first time, then takes 0.5 s", slow) as (seen, ended):
        expect_equal(ended, x * x, f"The second attempt would have worked; it ended with {ended!r}.")
        expect(not seen["went_on"], "The first task kept running beside the second: you did not cancel it.")


@exercise(
    points=2,
    minutes=8,
    needs={"CPU": 4},
    hints=[
        "The second call with a key must find out that there was a first, and what that was told. What keeps both?",
        "A dict from key to answer: when the key is in it, return what stands there, and change nothing.",
    ],
)
def Ledger(answer: Answer, rng: Generator) -> None:
    """Keep the answer to every key; a key that comes again gets the same answer, and has no other effect."""
    payments, amounts, last = _payments(rng)
    seen = answer.probe(given.pay, payments, [1])
    expect(
        not seen["hidden"],
        f"After `__init__` and a deposit, these methods of `self` are hidden by attributes of the same name: {seen['hidden']}. "
        "Give the attributes other names.",
    )
    *totals, total = accumulate(amounts)
    wanted = [*totals, totals[0], total]
    with answer.case(
        f"payments of {amounts[:4]}, then the first key again with {last}, then {last} with a new key; the second "
        "task died after its deposit and was retried; in the end all were repeated"
    ):
        balance = seen["balance"]
        expect_equal(balance, total, f"The balance was {balance}, and the five payments add up to {total}.")
        _expect_answers(seen["answers"], wanted)
        _expect_same_again(seen["again"], wanted)


def _payments(rng: Generator) -> tuple[list[list], list[int], int]:
    """Return six payments, [key, amount], of which the fifth has the key of the first; the five amounts that count; the last."""
    twice, once, last = (int(amount) for amount in rng.choice(range(5, 100), size=3, replace=False))
    keys = [f"payment-{number}" for number in rng.choice(1000, size=5, replace=False)]
    amounts = [twice, once, twice, -2 * twice - once, last]
    payments = [[key, amount] for key, amount in zip(keys, amounts, strict=True)]
    # The fifth has an old key: whatever amount comes with it, it has been served.
    return [*payments[:4], [keys[0], last], payments[4]], amounts, last


def _expect_answers(answers: list, wanted: list) -> None:
    """Name the first answer that is not the wanted one."""
    place, right = _first_wrong(answers, wanted)
    expect(
        not place,
        f"The answers were {answers}; number {place} should have been {right}. A repeated payment must get the same answer "
        "as the first time.",
    )


def _first_wrong(answers: list, wanted: list) -> tuple[int, int]:
    """Return the place of the first wrong answer, from 1, and what it should have been; (0, 0) where all are right."""
    pairs = enumerate(zip_longest(answers, wanted), 1)
    return next(((place, right) for place, (got, right) in pairs if not agree(got, right)), (0, 0))


def _expect_same_again(told: list, wanted: list) -> None:
    """Check the answers to the payments that were all repeated in the end."""
    place, right = _first_wrong(told, wanted)
    expect(
        not place,
        f"In the end each was repeated, and the answers were {told}; number {place} should have been {right}.",
    )


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 4},
    hints=[
        "`__init__` runs again after every restart, with the same arguments: load what the last `add` saved.",
        "At the very first start there is no file yet. And what is left in the folder when a process dies in the middle of `add`?",
        "`path + '.new'` is a name in the same folder that no other counter uses. Rename that file when all of it is written.",
    ],
)
def CheckpointedCounter(answer: Answer, rng: Generator) -> None:
    """Save before you answer, under a name that is not read, and then rename: a reader finds the old state or the new."""
    steps = rng.integers(2, 50, size=5).tolist()
    seen = answer.probe(given.count_and_kill, steps, [2])
    with answer.case(f"add with {steps}, the process killed after the third call"):
        _judge_totals(seen["totals"], steps)
    _expect_own_path(seen["others"])
    first, second = int(rng.integers(100, 1000)), int(rng.integers(2, 50))
    saving = answer.probe(given.die_while_saving, first, second)
    _expect_same_folder(saving["elsewhere"], second)
    for torn in saving["deaths"]:
        _judge_torn(answer, torn, second)


def _judge_totals(totals: list, steps: list[int]) -> None:
    """Check the totals before and after the restart."""
    expect(not agree(totals[3:4], steps[3:4]), f"The totals were {totals}. After the restart it began again at 0.")
    expect_equal(
        totals,
        list(accumulate(steps)),
        f"The totals were {totals}. When an `add` returns, is what it returns already in the file `path`?",
    )


def _expect_own_path(others: list) -> None:
    expect_equal(
        others,
        [1, 2, 3, 4, 5],
        f"A second counter, with a path of its own, added 1 five times; its totals were {others}.",
    )


def _expect_same_folder(elsewhere: list[str], second: int) -> None:
    folders = ", ".join(elsewhere)
    expect(
        not folders,
        f"`add({second})` wrote its new file into another folder ({folders}) and renamed it from there. "
        "Between two disks that fails, or is a copy: see the second rule.",
    )


def _judge_torn(answer: Answer, torn: given.Death, second: int) -> None:
    """Judge the state after a death at one moment of a save: it is the old one or the new one."""
    before, after = torn["before"], torn["after"]
    with answer.case(
        f"a total of {before}; the process died in the middle of add({second}), when it had just {torn['done']}"
    ):
        expect(not torn["problem"], f"After the restart, `__init__` failed with {torn['problem']}.")
        whole = after in (before, before + second)
        expect(whole, f"After the restart the total was {after}, neither the old one nor the new one.")


@exercise(
    points=4,
    minutes=20,
    needs={"CPU": 4},
    hints=[
        "Start as for `bounded_map` in chapter 1: one call for each sampler, and a dict from the reference to its sampler and seed.",
        "Wait for one reference. Did it end well? Keep the fragment, and give the same sampler the next seed.",
        "Did its sampler die (`RayActorError`)? Then the seed goes back to those that are left, and a new sampler takes over. "
        "Did `sample` raise something (`RayTaskError`)? Then raise it, and look for this first, as in `resilient_call`.",
        "Count the deaths of each seed; at the third, `raise` inside the `except` passes the error on.",
    ],
)
def collect(answer: Answer, rng: Generator) -> None:
    """Know at every moment which sampler works on which seed: a death then costs one fragment and one new sampler."""
    # Long: samplers die over some seeds and wait for each other over others; two seeds end the work.
    *seeds, killer, broken = [int(seed) for seed in rng.choice(range(2, 100), size=9, replace=False)]
    plus = int(rng.integers(1, 1000))
    plan = dict(zip(seeds, ["waits", "dies 1", "works", "dies 2", "works", "meets", "meets"], strict=True))
    seen = answer.probe(given.collect_with_deaths, 2, plan, plus)
    with answer.case(f"a pool of 2, seeds {list(plan)}; one sampler died over {seeds[1]} and two over {seeds[3]}"):
        got = _fragments_of(seen)
        wanted = [seed * seed + plus for seed in plan]
        expect_equal(got, wanted, f"It returned {got}: not a list of the fragments of these seeds, in their order.")
        _judge_costs(seen, plan)
    _judge_killer(answer, killer, plus)
    _judge_broken(answer, broken, plus)


def _fragments_of(seen: given.Collected) -> object:
    """Return what came back; fail where the work ended with an error or went on with fewer samplers."""
    raised = seen["raised"]
    expect(
        raised not in DEATHS,
        f"`collect` gave up with {raised}. No seed had three deaths of its own, so none of these deaths may end the work. Do you "
        "catch each, and count it for its own seed only? Calls that were queued behind a dying one fail as well.",
    )
    expect(not raised, f"`collect` gave up with {raised}. {seen['text']}")
    expect(
        seen["met"],
        "Calls that wait for each other never met. Either the pool had shrunk, or you waited for one call, "
        "or for a whole round, before you launched the next.",
    )
    return seen["value"]


def _judge_costs(seen: given.Collected, plan: dict[int, str]) -> None:
    """Judge how often each seed was sampled, and how many samplers were made."""
    wanted = {seed: 1 + int((act.split() + ["0"])[1]) for seed, act in plan.items()}
    repeated = [seed for seed in plan if seen["times"].get(seed) != wanted[seed]]
    times = [seen["times"].get(seed) for seed in repeated]
    expect(not repeated, f"The seeds {repeated} were sampled {times} times: only lost fragments are repeated.")
    enough = seen["samplers"] <= 2 + 3
    expect(enough, f"You made {seen['samplers']} samplers: 2, and one for each that died, are enough.")


def _judge_killer(answer: Answer, killer: int, plus: int) -> None:
    """A seed that always kills its sampler ends the work after three deaths."""
    with answer.case(f"the seed {killer}, which kills every sampler"):
        seen = answer.probe(given.collect_with_deaths, 1, {killer: "dies 5"}, plus)
        ended, times = seen["raised"] or seen["value"], seen["times"].get(killer)
        expect(times == 3, f"You tried it {times} times; give it up after the third death.")
        expect(seen["raised"] in DEATHS, f"The caller must see the error of the third death; it got {ended}.")


def _judge_broken(answer: Answer, broken: int, plus: int) -> None:
    """An exception of `sample` ends the work at once, also where it is an error of Ray's."""
    with answer.case(
        f"the seed {broken}, for which sample raises an ActorDiedError: another actor, which it asked, is dead"
    ):
        seen = answer.probe(given.collect_with_deaths, 1, {broken: "raises"}, plus)
        ended, times = seen["raised"] or seen["value"], seen["times"].get(broken)
        expect(times == 1, f"It was called {times} times: the sampler itself lives, and a new one does not fix that.")
        expect(seen["raised"] == "ActorDiedError", f"The caller must see that ActorDiedError; it got {ended}.")


question(
    "how_many_runs",
    """
    A task with Ray's default options kills its own process every time. How many times does it run?

    a) Once: then `ray.get` raises.
        That is what `max_retries=0` would do. The default is 3.
    b) Three times.
        `max_retries=3` counts the attempts that follow the first.
    *c) Four times, then `ray.get` raises `WorkerCrashedError`.
        Right: one attempt and three retries, each with all of the task's effects.
    """,
)

question(
    "what_a_timeout_ends",
    """
    `ray.get(ref, timeout=1)` has raised `GetTimeoutError`. What is the task doing now?

    *a) It keeps running, and keeps its slot until it ends.
        Right: the time-out ended your wait, not the task. `ray.cancel` ends the task, and you may also just ask again later.
    b) It has been cancelled.
        Nothing told it to stop: a time-out ends a wait.
    c) Ray has started it once more.
        Ray retries after deaths; it knows nothing of your patience.
    """,
)

question(
    "where_the_key_comes_from",
    """
    Each deposit needs a key that makes a retry harmless. Where should the key be made?

    a) In the task: `key = uuid.uuid4()` on its first line.
        A retry runs that line again, and has another key: the deposit counts twice.
    *b) Where the task is launched, and it goes in as an argument.
        Right: a retry gets the same arguments, so it shows the same key.
    c) In the ledger: it numbers the deposits as they come.
        Then a retry gets the next number: the ledger cannot know that it has seen it before.
    """,
)

question(
    "what_comes_back",
    """
    A node dies for good. What comes back without any code of yours?

    *a) The large results of tasks that ran there, while you hold references to them.
        Right: Ray knows which task made them, with which arguments, and runs it again.
    b) Arrays that a task there stored with `ray.put`.
        There is no recipe for a `ray.put`: Ray knows the value, not where it came from.
    c) The attributes of an actor with `max_restarts=-1`.
        The actor starts again elsewhere and runs its `__init__`; its attributes are as they were at the start.
    """,
)
