"""The judge's side of chapter 5."""

from itertools import accumulate

from numpy.random import Generator

from coursekit.answer import Answer
from coursekit.exercise import exercise, expect, expect_equal, quiz
from coursekit.given import ch05_faults as given


@exercise(
    points=2,
    minutes=10,
    hints=[
        "Launch all calls before you wait for the first. Then fetch them one by one, each in a `try` of its own.",
        "A function that raised arrives as a `RayTaskError`, and its `cause` is the original exception. A process that died "
        "arrives as something else: the table above has its name.",
        "`ray.remote(function).options(max_retries=0)` makes tasks that Ray does not try again.",
    ],
)
def survivors(answer: Answer, rng: Generator) -> None:
    """Give every reference a `try` of its own, and write down what each `except` caught."""
    acts = ["KeyError", *rng.permutation(["dies", "ValueError", "None", "0", "meets", "meets", "works"]).tolist()]
    plan = {int(x): act for x, act in zip(rng.choice(range(2, 100), size=8, replace=False), acts, strict=True)}
    seen = answer.probe(given.fetch_all, plan)
    expect(not seen["here"], "`function(x)` was called in your notebook's own process: make each call a task.")
    returned = seen["returned"]
    expect(
        isinstance(returned, list | tuple) and len(returned) == 2 and all(isinstance(part, dict) for part in returned),
        "`survivors` must return two dicts: the results, and the errors.",
    )
    results, errors = returned
    failures = {"dies": "WorkerCrashedError", "ValueError": "ValueError", "KeyError": "KeyError"}
    wanted = {x: {"None": None, "0": 0}.get(act, x * x) for x, act in plan.items() if act not in failures}
    returns = f"The calls for {list(wanted)} returned a value, some of them None or 0; "
    lost = [x for x in wanted if x not in results]
    among = [x for x in lost if x in errors]
    expect(
        not lost,
        returns + f"the results lack {lost}." + (f" The errors have {among}: did those calls fail?" if among else ""),
    )
    _judge_errors(errors, {x: failures[act] for x, act in plan.items() if act in failures})
    expect_equal(results, wanted, returns + f"the results have {list(results)}.")
    calls = {x: count for x, count in seen["calls"].items() if count != 1}
    expect(not calls, f"Each call is made once; those for {list(calls)} ran {list(calls.values())} times.")
    expect(seen["met"], "Two calls never ran at the same time: is everything launched before you wait?")


def _judge_errors(errors: dict, wanted: dict) -> None:
    """Say which failure is missing, or under which name it stands."""
    lost = [x for x in wanted if x not in errors]
    expect(not lost, f"The calls for {list(wanted)} failed; the errors say nothing of {lost}.")
    wrong = {x: errors[x] for x in wanted if errors[x] != wanted[x]}
    expect(
        not wrong,
        f"The errors call what happened to {list(wrong)} {list(wrong.values())}. Give the name of the original exception's "
        "type, or of Ray's where the process died.",
    )
    extra = [x for x in errors if x not in wanted]
    expect(not extra, f"The calls for {extra} returned a value, and yet they stand among the errors.")


@exercise(
    points=3,
    minutes=15,
    hints=[
        "A loop over the attempts: launch, `ray.get` with a time-out, return. Which two exceptions let the loop go on?",
        "`WorkerCrashedError` and `GetTimeoutError` are tried again. Whatever else `ray.get` raises is for the caller. Which "
        "`except` must stand first, so that an error of Ray's which the *function* raised is not taken for a death?",
        "After a time-out, and only then, the task still runs: `ray.cancel(ref, force=True)`. Ray must not retry by itself: "
        "`max_retries=0`.",
        "Keep the exception under another name (`last = error`): Python forgets `error` at the end of the `except` block.",
    ],
)
def resilient_call(answer: Answer, rng: Generator) -> None:
    """Count the attempts yourself, repeat only what another attempt can mend, and end what you no longer wait for."""
    x = int(rng.integers(10, 1000))
    told = f"`resilient_call(function, {x}, attempts={{}}, seconds={{}})`, and the function {{}}. "

    def ask(attempts: int, seconds: float, what: str, plan: list[str]) -> tuple[list, int, int, str]:
        seen = answer.probe(given.call_faulty, x, plan, attempts, seconds)
        return seen["outcome"], seen["calls"], seen["went_on"], told.format(attempts, seconds, what)

    outcome, calls, _, text = ask(3, 300, "raises a KeyError", ["raises"] * 6)
    expect_equal(calls, 1, text + f"It was called {calls} times, though it raises the same again.")
    expect(
        outcome[:2] == ["error", "KeyError"] and str(x) in outcome[2],
        text + f"The caller must see that KeyError; it ended with {_spoken(outcome)}.",
    )
    outcome, calls, _, text = ask(
        3, 300, "raises a WorkerCrashedError, since a task of its own died", ["raises Ray's"] * 6
    )
    expect_equal(calls, 1, text + f"It was called {calls} times, though its own process lives: it *raised* that error.")
    expect(
        outcome[:2] == ["error", "WorkerCrashedError"],
        text + f"The caller must see that error; it ended with {_spoken(outcome)}.",
    )
    outcome, calls, _, text = ask(2, 300, "lost its process once, then worked", ["dies"])
    expect_equal(outcome, ["value", x * x], text + f"That ended with {_spoken(outcome)}.")
    expect_equal(calls, 2, text + f"It was called {calls} times.")
    outcome, calls, _, text = ask(2, 300, "loses its process every time", ["dies"] * 3)
    expect_equal(calls, 2, text + f"It was called {calls} times.")
    expect(
        outcome[:2] == ["error", "WorkerCrashedError"],
        text + f"That must end with the last error; it ended with {_spoken(outcome)}.",
    )
    outcome, calls, went_on, text = ask(1, 1.5, "hangs", ["hangs"])
    expect(calls <= 1, text + f"It was called {calls} times.")
    expect(
        outcome[:2] == ["error", "GetTimeoutError"],
        text + f"That must end with the time-out; it ended with {_spoken(outcome)}.",
    )
    expect(went_on == 0, text + "The task went on after that, and held its slot: nobody had cancelled it.")
    # many attempts: where a new process takes longer than `seconds` to start, several of them pass
    outcome, calls, went_on, text = ask(60, 2, "hangs the first time, then works", ["hangs"])
    expect_equal(outcome, ["value", x * x], text + f"That ended with {_spoken(outcome)}.")
    expect(went_on == 0, text + "The first task went on while the second ran: nobody had cancelled it.")


def _spoken(outcome: list) -> str:
    kind, *rest = outcome
    return f"the value {rest[0]!r}" if kind == "value" else rest[0]


@exercise(
    points=2,
    minutes=8,
    hints=[
        "Remember every key that came, together with the answer that it got.",
        "A dict from key to answer: when the key is in it, return what stands there, and change nothing.",
    ],
)
def Ledger(answer: Answer, rng: Generator) -> None:
    """Keep the answer to every key; a key that comes again gets the same answer, and has no other effect."""
    twice, once, last = (int(amount) for amount in rng.choice(range(5, 100), size=3, replace=False))
    keys = [f"payment-{number}" for number in rng.choice(1000, size=5, replace=False)]
    amounts = [twice, once, twice, -2 * twice - once, last]
    payments = [[key, amount] for key, amount in zip(keys, amounts, strict=True)]
    payments.insert(4, [keys[0], last])  # an old key: whatever amount comes with it, it has been served
    seen = answer.probe(given.pay, payments, [1])
    expect(
        not seen["hidden"],
        f"After `__init__` and a deposit, {' and '.join(f'`self.{name}`' for name in seen['hidden'])} is no method any more: "
        "an attribute of that name hides it. Give the attribute another name.",
    )
    totals = list(accumulate(amounts))
    wanted = [*totals[:4], totals[0], totals[4]]
    task = f"Payments of {', '.join(map(str, amounts[:4]))}, then the first one's key again with {last}, then {last} with a new key; "
    task += "the second one's task died after the deposit and was retried; in the end all were repeated. "
    expect_equal(
        seen["balance"], totals[4], task + f"The balance was {seen['balance']}, and the five payments make {totals[4]}."
    )
    expect_equal(
        seen["answers"],
        wanted,
        task + f"The answers were {seen['answers']}; {_first_wrong(seen['answers'], wanted)}. "
        "A repeated payment must get the answer that it got at first.",
    )
    expect_equal(
        seen["again"],
        wanted,
        task
        + f"In the end each was repeated, and the answers were {seen['again']}; {_first_wrong(seen['again'], wanted)}.",
    )


def _first_wrong(answers: list, wanted: list) -> str:
    """Name the first answer that is not the wanted one."""
    pairs = zip(answers, wanted, strict=True)
    wrong = [f"number {place} should have been {right}" for place, (got, right) in enumerate(pairs, 1) if got != right]
    return wrong[0] if wrong else ""


@exercise(
    points=3,
    minutes=15,
    hints=[
        "`__init__` runs again after every restart, with the same arguments: load there what the last `add` saved.",
        "Save in every `add`, before it returns: whoever has the answer may rely on it.",
        "`open(path, 'w')` empties the file at once. Write to another name, then `os.replace(new, path)`.",
    ],
)
def CheckpointedCounter(answer: Answer, rng: Generator) -> None:
    """Save before you answer, under a name that nobody reads, and then rename: a reader finds the old state or the new."""
    steps = rng.integers(2, 50, size=5).tolist()
    seen = answer.probe(given.count_and_kill, steps, [2])
    totals, wanted = seen["totals"], list(accumulate(steps))
    task = f"`add` was called with {steps}, and the process was killed after the third call. "
    again = " After the restart it began at 0 again." if totals[3:4] == steps[3:4] else ""
    expect_equal(totals, wanted, task + f"The totals were {totals}.{again}")
    expect_equal(
        seen["others"],
        [1, 2, 3, 4, 5],
        f"A second counter, with a path of its own, added 1 five times; its totals were {seen['others']}.",
    )
    first, second = int(rng.integers(100, 1000)), int(rng.integers(2, 50))
    saving = answer.probe(given.die_while_saving, first, second)
    expect(
        not saving["elsewhere"],
        f"`add({second})` wrote its new file into another folder ({', '.join(saving['elsewhere'])}) and renamed it from there. "
        "Between two disks that fails, or is a copy: see the second rule.",
    )
    for torn in saving["deaths"]:
        before, after = torn["before"], torn["after"]
        task = f"The total was {before}; the process died in the middle of `add({second})`, when it had just {torn['done']}. "
        expect(not torn["problem"], task + f"After the restart, `__init__` failed with {torn['problem']}.")
        expect(
            after in (before, before + second),
            task + f"After the restart the total was {after}, neither the old one nor the new one.",
        )


@exercise(
    points=4,
    minutes=20,
    hints=[
        "Start like a bounded map: one call for each sampler, and a dict from the reference to its sampler and seed.",
        "Wait for one reference. Did it end well? Keep the fragment, and give the same sampler the next seed.",
        "Did its sampler die (`RayActorError`)? Then the seed goes back to those that are left, and a new sampler takes over. "
        "Did `sample` raise something (`RayTaskError`)? Then raise it, and look for this first, as in `resilient_call`.",
        "Count the deaths of each seed; at the third, `raise` inside the `except` passes the error on.",
    ],
)
def collect(answer: Answer, rng: Generator) -> None:
    """Know at every moment who works on what: a death then costs one fragment, one new sampler, and nothing else."""
    acts = ["waits", "dies 1", "works", "dies 2", "works", "meets", "meets"]
    seeds = [int(seed) for seed in rng.choice(range(2, 100), size=9, replace=False)]
    plus = int(rng.integers(1, 1000))
    plan = dict(zip(seeds, acts, strict=False))
    seen = answer.probe(given.collect_with_deaths, 2, plan, plus)
    task = f"A pool of 2, seeds {list(plan)}; one sampler died over {seeds[1]} and two over {seeds[3]}. "
    fragments = [seed * seed + plus for seed in plan]
    kind, got, *text = seen["outcome"]
    died = (
        "No seed had three deaths of its own, so none of these deaths may end the work. Is it caught, and counted for its own "
        "seed only? (Calls that were queued behind a dying one fail as well.)"
    )
    why = died if got in ("ActorDiedError", "RayActorError") else " ".join(text)
    expect(kind == "value", task + f"`collect` gave up with {got}. {why}")
    expect(
        seen["met"],
        task + "Calls that wait for each other never met. Either the pool had shrunk, or you waited for one call "
        "(or a whole round) before launching the next.",
    )
    expect(
        isinstance(got, list | tuple) and len(got) == len(plan),
        task + f"It returned {got}: that is not one fragment for each seed.",
    )
    expect_equal(got, fragments, task + f"It returned {got}: not the fragments of these seeds, in their order.")
    times = {seed: 1 + int((act.split() + ["0"])[1]) for seed, act in plan.items()}
    wrong = {seed: seen["times"][seed] for seed in plan if seen["times"][seed] != times[seed]}
    expect(
        not wrong,
        task + f"The seeds {list(wrong)} were sampled {list(wrong.values())} times: only lost fragments are repeated.",
    )
    expect(
        seen["samplers"] <= 2 + 3,
        task + f"You made {seen['samplers']} samplers: 2, and one for each that died, are enough.",
    )
    _judge_give_up(answer, seeds[-2], seeds[-1], plus)


def _judge_give_up(answer: Answer, killer: int, broken: int, plus: int) -> None:
    """A seed that always kills its sampler ends the work after three, an exception of `sample` at once."""
    seen = answer.probe(given.collect_with_deaths, 1, {killer: "dies 5"}, plus)
    (kind, got), times = seen["outcome"][:2], seen["times"][killer]
    task = f"The seed {killer} kills every sampler. "
    expect(times == 3, task + f"You tried it {times} times; after the third death it is given up.")
    expect(
        kind == "error" and got in ("ActorDiedError", "RayActorError"),
        task + f"The caller must see the error of the third death; it got {got}.",
    )
    seen = answer.probe(given.collect_with_deaths, 1, {broken: "raises"}, plus)
    (kind, got), times = seen["outcome"][:2], seen["times"][broken]
    task = f"For the seed {broken}, `sample` raises an ActorDiedError: another actor, which it asked, is dead. "
    expect(
        times == 1, task + f"It was called {times} times: the sampler itself lives, and a new one does not mend that."
    )
    expect(
        kind == "error" and got == "ActorDiedError",
        task + f"The caller must see that ActorDiedError; it got {got}.",
    )


quiz(
    "how_many_runs",
    """
    A task with Ray's default options kills its own process every time. How many times does it run?

    a) Once: then `ray.get` raises.
        That is what `max_retries=0` would do. The default is 3.
    b) Three times.
        `max_retries=3` counts the attempts that follow the first.
    *c) Four times, then `ray.get` raises `WorkerCrashedError`.
        Right: one attempt and three retries. Each of them has all of the task's effects.
    """,
)

quiz(
    "what_a_timeout_ends",
    """
    `ray.get(ref, timeout=1)` has raised `GetTimeoutError`. What is the task doing now?

    *a) It goes on, and holds its slot until it ends.
        Right: the time-out ended your wait, not the task. `ray.cancel` ends the task, and you may also just ask again later.
    b) It has been cancelled.
        Nobody told it to stop: a time-out is about whoever waits.
    c) Ray has started it once more.
        Ray retries after deaths; it knows nothing of your patience.
    """,
)

quiz(
    "where_the_key_comes_from",
    """
    Each deposit needs a key that makes a retry harmless. Where is the key made?

    a) In the task: `key = uuid.uuid4()` on its first line.
        A retry runs that line again, and has another key: the deposit counts twice.
    *b) Where the task is launched, and it goes in as an argument.
        Right: a retry gets the same arguments, so it shows the same key.
    c) In the ledger: it numbers the deposits as they come.
        Then a retry gets the next number: the ledger cannot know that it has seen it before.
    """,
)

quiz(
    "what_comes_back",
    """
    A node dies for good. What of it is there again without any code of yours?

    *a) The large results of tasks that ran there, while you hold references to them.
        Right: Ray knows which task made them, with which arguments, and runs it again.
    b) Arrays that a task there stored with `ray.put`.
        There is no recipe for a `ray.put`: Ray knows the value, not where it came from.
    c) The attributes of an actor with `max_restarts=-1`.
        The actor starts again elsewhere, with a fresh `__init__`; its attributes are as they were at the start.
    """,
)
