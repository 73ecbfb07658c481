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
        "Launch all calls before you wait for the first. Then fetch them one by one, each inside its own `try`.",
        "If the function raised, `ray.get` raises a `RayTaskError`, and its `cause` is the original exception. If the process died, "
        "`ray.get` raises another type: the table above has its name.",
        "`ray.remote(function).options(max_retries=0)` makes tasks that Ray doesn't retry.",
    ],
    spare=["    task = ray.remote(function)"],
)
def survivors(answer: Answer, rng: Generator) -> None:
    """Fetch every reference inside its own `try`, and record what each `except` caught."""
    # Long: each of the calls ends in its own way (a value, an error, a death), and two of them meet.
    plan = _eight_ends(rng)
    seen = answer.probe(given.fetch_all, plan)
    expect(not seen["here"], "You called `function(x)` in your notebook's process. Make each call a task.")
    raised = seen["raised"]
    expect(
        not raised,
        f"One of the calls failed with {raised}, and that error came out of `survivors`. Record it in the errors: one failure must "
        "not cost you the results of the other calls.",
    )
    results, errors = _two_dicts(seen["returned"])
    failed = {x: FAILURES[act] for x, act in plan.items() if act in FAILURES}
    wanted = {x: {"None": None, "0": 0}.get(act, x * x) for x, act in plan.items() if act not in FAILURES}
    with answer.case(
        f"eight calls: those for {list(wanted)} returned a value, some of them None or 0; those for {list(failed)} failed"
    ):
        _expect_none_lost(results, errors, wanted)
        _judge_errors(errors, failed)
        have = list(results)
        expect_equal(
            results,
            wanted,
            f"The results are for {have}. They need what each call returned, and nothing for a call that failed.",
        )
        _expect_one_launch(seen)


def _eight_ends(rng: Generator) -> dict[int, str]:
    """Return eight inputs, each with how its call ends; an exception comes first."""
    acts = ["KeyError", *rng.permutation(["dies", "ValueError", "None", "0", "meets", "meets", "works"]).tolist()]
    return dict(zip(rng.choice(range(2, 100), size=8, replace=False).tolist(), acts, strict=True))


def _two_dicts(returned: Any) -> tuple[dict, dict]:
    """Return the results and the errors."""
    expect(
        isinstance(returned, list | tuple) and len(returned) == 2 and all(isinstance(part, dict) for part in returned),
        "`survivors` must return two dicts: the results and the errors.",
    )
    return returned[0], returned[1]


def _expect_none_lost(results: dict, errors: dict, wanted: dict) -> None:
    """Check that each call that returned a value is among the results."""
    lost = [x for x in wanted if x not in results]
    called_failed = [x for x in lost if x in errors]
    expect(
        not called_failed,
        f"The results lack {lost}, and the errors contain {called_failed}, though these calls returned a value.",
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
        f"For {wrong}, the errors say {said}. Give the name of the original exception's type, or of Ray's type if the process died.",
    )
    extra = [x for x in errors if x not in wanted]
    expect(not extra, f"The calls for {extra} returned a value, but they are among the errors.")


def _expect_one_launch(seen: given.Fetched) -> None:
    """Check that each call ran once, and that two of them met."""
    repeated = [x for x, count in seen["calls"].items() if count != 1]
    times = [seen["calls"][x] for x in repeated]
    expect(not repeated, f"Each call must be made once; those for {repeated} ran {times} times.")
    expect(
        seen["met"],
        "Two calls that wait for each other never met. Launch all before you wait for the first.",
    )


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 4},
    hints=[
        "Write a loop over the attempts: launch, `ray.get` with a timeout, return. After which two exceptions does the loop continue?",
        "Retry after `WorkerCrashedError` and `GetTimeoutError`; everything else that `ray.get` raises is for the caller. Which "
        "`except` must come first, so that you don't mistake one of Ray's errors that the *function* raised for a death?",
        "After a timeout, and only then, the task is still running: `ray.cancel(ref, force=True)`. Keep Ray from retrying "
        "with `max_retries=0`.",
        "Keep the exception under another name (`last = error`), because Python deletes `error` at the end of the `except` block.",
    ],
    spare=["    return last"],
)
def resilient_call(answer: Answer, rng: Generator) -> None:
    """Count the attempts yourself, retry only what another attempt can fix, and cancel what you have stopped waiting for."""
    # Long: a call raises, dies, or hangs, and each time, both the number of calls and the end can be wrong.
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
    """What the function itself raises is for the caller, even if it is one of Ray's errors."""
    with ask(3, 300, "raises a KeyError", ["raises"] * 6) as (seen, ended):
        expect(
            seen["calls"] == 1,
            f"The function was called {seen['calls']} times, though it always raises the same exception.",
        )
        passed_on = seen["raised"] == "KeyError" and str(x) in seen["text"]
        expect(passed_on, f"The caller must get that KeyError, but the call ended with {ended!r}.")
    own = "raises a WorkerCrashedError, because a task that it launched died"
    with ask(3, 300, own, ["raises Ray's"] * 6) as (seen, ended):
        expect(
            seen["calls"] == 1,
            f"The function was called {seen['calls']} times, though its own process didn't die: it *raised* that error.",
        )
        passed_on = seen["raised"] == "WorkerCrashedError"
        expect(passed_on, f"The caller must get that WorkerCrashedError, but the call ended with {ended!r}.")


def _judge_deaths(ask: Ask, x: int) -> None:
    """A death is worth another attempt, as long as one is left."""
    with ask(2, 300, "loses its process once, then works", ["dies"]) as (seen, ended):
        expect_equal(
            ended, x * x, f"After the death, a second attempt would have worked, but the call ended with {ended!r}."
        )
        expect(seen["calls"] == 2, f"The function was called {seen['calls']} times, though the second attempt worked.")
    with ask(2, 300, "loses its process every time", ["dies"] * 3) as (seen, ended):
        expect(seen["calls"] == 2, f"The function was called {seen['calls']} times, with `attempts=2`.")
        expect(seen["raised"] in CRASHES, f"The call must end with the last attempt's error, not with {ended!r}.")


def _judge_hangs(ask: Ask, x: int) -> None:
    """A hanging call is canceled when its time is over, and another attempt may work."""
    with ask(1, 1.5, "hangs", ["hangs"]) as (seen, ended):
        expect(seen["calls"] <= 1, f"The function was called {seen['calls']} times, with `attempts=1`.")
        expect(seen["raised"] in TIMEOUTS, f"The call must end with the timeout, but it ended with {ended!r}.")
        expect(not seen["went_on"], "After the timeout, the task kept running and kept its CPU. Cancel it.")
    # many attempts: where a new process takes longer than `seconds` to start, several of them pass
    # the others take time: an attempt that has none must not find its result there at once
    slow = ["hangs", *["takes time"] * 60]
    with ask(60, 2, "hangs the first time, then takes 0.5 s", slow) as (seen, ended):
        expect_equal(
            ended,
            x * x,
            f"After the first attempt's timeout, another one would have worked, because each attempt has 2 s from its own launch. "
            f"But the call ended with {ended!r}.",
        )
        expect(not seen["went_on"], "The first task kept running beside the second. Cancel it after the timeout.")


@exercise(
    points=2,
    minutes=8,
    needs={"CPU": 4},
    hints=[
        "The second call with a key must find out that there was a first, and what the answer was. What can store both?",
        "Use a dict from key to answer: if the key is in it, return that answer and change nothing.",
    ],
)
def Ledger(answer: Answer, rng: Generator) -> None:
    """Keep the answer for every key; a repeated key gets the same answer and has no other effect."""
    payments, amounts, last = _payments(rng)
    seen = answer.probe(given.pay, payments, [1])
    hidden = seen["hidden"]
    expect(not hidden, f"After a deposit, attributes of `self` hide the methods {hidden}. Rename the attributes.")
    second = seen["second"]
    expect_equal(
        second,
        2,
        f"A second ledger's first deposit was 2, and it answered {second}, not 2. Perhaps it knew a key of the first ledger: set all attributes in `__init__`.",
    )
    *totals, total = accumulate(amounts)
    wanted = [*totals, totals[0], total]
    with answer.case(
        f"payments of {amounts[:4]}, then the first key again with {last}, then {last} with a new key; the second "
        "task died after its deposit and was retried; at the end, all payments were repeated"
    ):
        balance = seen["balance"]
        expect_equal(balance, total, f"The balance was {balance}, but the five payments add up to {total}.")
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
        f"The answers were {answers}; number {place} should have been {right}. A repeated payment gets the same answer "
        "as the first time.",
    )


def _first_wrong(answers: list, wanted: list) -> tuple[int, int]:
    """Return the place of the first wrong answer, from 1, and what it should have been; (0, 0) where all are right."""
    pairs = enumerate(zip_longest(answers, wanted), 1)
    return next(((place, right) for place, (got, right) in pairs if not agree(got, right)), (0, 0))


def _expect_same_again(told: list, wanted: list) -> None:
    """Check the answers to the payments that were all repeated in the end."""
    place, right = _first_wrong(told, wanted)
    expect(not place, f"At the end, each was repeated: {told}; answer number {place} should have been {right}.")


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 4},
    hints=[
        "`__init__` runs again after every restart, with the same arguments, so it can load what the last `add` saved.",
        "At the very first start, there's no file yet. And what is left in the folder if the process dies in the middle of `add`?",
        "`path + '.new'` is a name in the same folder that no other counter uses. Rename that file after it has been written and closed.",
    ],
)
def CheckpointedCounter(answer: Answer, rng: Generator) -> None:
    """Save before you return, under a name that nobody reads, and then rename: a reader finds the old state or the new one."""
    steps = rng.integers(2, 50, size=5).tolist()
    seen = answer.probe(given.count_and_kill, steps, [2])
    with answer.case(f"`add` with {steps}; the process was killed after the third call"):
        _judge_totals(seen["totals"], steps)
    _expect_own_path(seen["others"])
    first, second = int(rng.integers(100, 1000)), int(rng.integers(2, 50))
    saving = answer.probe(given.die_while_saving, first, second)
    _expect_same_folder(saving["elsewhere"], second)
    for torn in saving["deaths"]:
        _judge_torn(answer, torn, second)


def _judge_totals(totals: list, steps: list[int]) -> None:
    """Check the totals before and after the restart."""
    began = agree(totals[3:4], steps[3:4])
    expect(not began, f"The totals were {totals}. The restarted counter started at 0 again.")
    expect_equal(
        totals,
        list(accumulate(steps)),
        f"The totals were {totals}. When `add` returns a total, that total must already be in the file `path`.",
    )


def _expect_own_path(others: list) -> None:
    expect_equal(
        others,
        [1, 2, 3, 4, 5],
        f"A second counter, with another path, added 1 five times, and its totals were {others}.",
    )


def _expect_same_folder(elsewhere: list[str], second: int) -> None:
    folders = ", ".join(elsewhere)
    expect(
        not folders,
        f"`add({second})` wrote its new file to another folder ({folders}) and renamed it from there. "
        "Between two disks, that fails or becomes a copy: see the second rule.",
    )


def _judge_torn(answer: Answer, torn: given.Death, second: int) -> None:
    """Judge the state after a death at one moment of a save: it is the old one or the new one."""
    before, after = torn["before"], torn["after"]
    with answer.case(
        f"a total of {before}; the process died in the middle of `add({second})`, just after it had {torn['done']}"
    ):
        expect(not torn["problem"], f"After the restart, `__init__` failed: {torn['problem']}")
        whole = after in (before, before + second)
        expect(whole, f"After the restart, the total was {after}, which is neither the old total nor the new one.")


@exercise(
    points=4,
    minutes=20,
    needs={"CPU": 4},
    hints=[
        "Start as you did for `bounded_map` in Chapter 1: make one call for each sampler, and keep a dict from the reference to its "
        "sampler and seed.",
        "Wait for one reference. If it has a fragment, keep it, and give the same sampler the next seed.",
        "If the sampler died (`RayActorError`), put the seed back among those that are left, and create a new sampler. "
        "If `sample` raised something (`RayTaskError`), raise it; catch this type first, as in `resilient_call`.",
        "Count the deaths for each seed; at the third, a `raise` inside the `except` passes the error on.",
    ],
)
def collect(answer: Answer, rng: Generator) -> None:
    """Know at every moment which sampler works on which seed; then a death costs one fragment and one new sampler."""
    # Long: samplers die over some seeds and wait for each other over others; two seeds end the work.
    *seeds, killer, broken = [int(seed) for seed in rng.choice(range(2, 100), size=9, replace=False)]
    plus = int(rng.integers(1, 1000))
    plan = dict(zip(seeds, ["waits", "dies 1", "works", "dies 2", "works", "meets", "meets"], strict=True))
    seen = answer.probe(given.collect_with_deaths, 2, plan, plus)
    with answer.case(f"a pool of 2, seeds {list(plan)}; one sampler died on {seeds[1]} and two on {seeds[3]}"):
        got = _fragments_of(seen)
        wanted = [seed * seed + plus for seed in plan]
        expect_equal(got, wanted, f"It returned {got}, not these seeds' fragments in the order of the seeds.")
        _judge_costs(seen, plan)
    _judge_killer(answer, killer, plus)
    _judge_broken(answer, broken, plus)


def _fragments_of(seen: given.Collected) -> object:
    """Return what came back; fail if the work ended with an error or continued with fewer samplers."""
    raised = seen["raised"]
    expect(
        raised not in DEATHS,
        f"`collect` gave up with {raised}, though no seed had three deaths. Catch each death, and count it only for the seed that the "
        "dead sampler was working on; calls that are queued behind a dying one fail as well.",
    )
    expect(not raised, f"`collect` gave up with {raised}. {seen['text']}")
    expect(
        seen["met"],
        "Calls that wait for each other never ran at the same time. Perhaps the pool had shrunk, `collect` waited for a call "
        "or for a whole round before it launched the next, or it made new samplers where idle ones would do.",
    )
    return seen["value"]


def _judge_costs(seen: given.Collected, plan: dict[int, str]) -> None:
    """Judge how often each seed was sampled, and how many samplers were made."""
    wanted = {seed: 1 + int((act.split() + ["0"])[1]) for seed, act in plan.items()}
    repeated = [seed for seed in plan if seen["times"].get(seed) != wanted[seed]]
    times = [seen["times"].get(seed) for seed in repeated]
    expect(not repeated, f"The seeds {repeated} were sampled {times} times. Repeat only the fragments that were lost.")
    enough = seen["samplers"] <= 2 + 3
    expect(enough, f"You created {seen['samplers']} samplers; 2, and one for each that died, are enough.")


def _judge_killer(answer: Answer, killer: int, plus: int) -> None:
    """A seed that always kills its sampler ends the collection after three deaths."""
    with answer.case(f"the seed {killer}, which kills every sampler"):
        seen = answer.probe(given.collect_with_deaths, 1, {killer: "dies 5"}, plus)
        ended, times = seen["raised"] or seen["value"], seen["times"].get(killer)
        expect(times == 3, f"You tried this seed {times} times; stop after the third death.")
        expect(seen["raised"] in DEATHS, f"The caller must get the error of the third death, but it got {ended}.")


def _judge_broken(answer: Answer, broken: int, plus: int) -> None:
    """An exception that `sample` raises ends the collection at once, even if it is one of Ray's errors."""
    with answer.case(
        f"the seed {broken}, for which `sample` raises an ActorDiedError, because another actor that it called is dead"
    ):
        seen = answer.probe(given.collect_with_deaths, 1, {broken: "raises"}, plus)
        ended, times = seen["raised"] or seen["value"], seen["times"].get(broken)
        expect(
            times == 1,
            f"For this seed, `sample` was called {times} times, though the sampler didn't die; a new sampler doesn't fix that.",
        )
        expect(seen["raised"] == "ActorDiedError", f"The caller must get that ActorDiedError, but it got {ended}.")


question(
    "how_many_runs",
    """
    A task with Ray's default options kills its own process every time. How many times does it run?

    a) Once; then `ray.get` raises an exception.
        That's what `max_retries=0` would do. The default is 3.
    b) Three times.
        `max_retries=3` counts the attempts after the first one.
    *c) Four times; then `ray.get` raises `WorkerCrashedError`.
        Right: that's one attempt and three retries, each with all of the task's side effects.
    """,
)

question(
    "what_a_timeout_ends",
    """
    `ray.get(ref, timeout=1)` has raised `GetTimeoutError`. What is the task doing now?

    *a) It keeps running, and it keeps its CPU until it finishes.
        Right: the timeout ended your wait, not the task. You can cancel the task with `ray.cancel`, or call `ray.get` again later.
    b) It has been canceled.
        Nothing told the task to stop: a timeout only ends a wait.
    c) Ray has started it a second time.
        Ray retries a task when its process dies; the timeout of your `ray.get` doesn't reach the task.
    """,
)

question(
    "where_the_key_comes_from",
    """
    Each deposit needs a key that makes a retry harmless. Where should the key be created?

    a) In the task: `key = uuid.uuid4()` on its first line.
        A retry runs that line again and gets another key, so the deposit counts twice.
    *b) Where the task is launched; the task receives it as an argument.
        Right: a retry gets the same arguments, so it sends the same key.
    c) In the ledger, which numbers the deposits in the order of their arrival.
        Then a retry gets the next number, and the ledger can't tell that it has seen this deposit before.
    """,
)

question(
    "what_comes_back",
    """
    A node dies for good. What does Ray rebuild without any code of yours?

    *a) The large results of tasks that ran there, as long as you hold references to them.
        Right: Ray has recorded which task produced them, and from which arguments, and it runs that task again.
    b) Arrays that a task there stored with `ray.put`.
        A `ray.put` has no lineage: Ray had the value, but not the code that produced it.
    c) The attributes of an actor with `max_restarts=-1`.
        The actor is restarted on another node and runs its `__init__`, so its attributes have their initial values.
    """,
)
