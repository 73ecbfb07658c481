"""The judge's side of chapter 25."""

from collections import Counter
from itertools import pairwise

from numpy.random import Generator

from coursekit.given import ch25_pipelines as given
from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import expect, expect_equal

PROMISES = ("exactly once", "at most once", "at least once", "none")
WORDS = ", ".join(PROMISES)
STORIES = (  # how many effects each of four orders had
    ("each order had its effect, in another order of time", (1, 1, 1, 1), "exactly once"),
    ("one order had no effect", (0, 1, 1, 1), "at most once"),
    ("nothing has happened", (0, 0, 0, 0), "at most once"),
    ("two orders had their effect twice", (2, 2, 1, 1), "at least once"),
    ("there are as many effects as orders, but one came twice and one is missing", (0, 2, 1, 1), "none"),
    ("one came three times, and two are missing", (0, 0, 1, 3), "none"),
)


def _told(rng: Generator, counts: tuple[int, ...]) -> tuple[list[str], list[str]]:
    """Return orders, and effects that come as often as this, never in the order in which they were ordered."""
    orders = [f"mail-{number}" for number in rng.choice(range(100, 1000), size=len(counts), replace=False)]
    all_effects = [order for order, count in zip(orders, rng.permutation(counts), strict=True) for _ in range(count)]
    effects = [all_effects[place] for place in rng.permutation(len(all_effects))]
    return orders, effects[::-1] if effects == orders else effects


@exercise(
    points=2,
    minutes=10,
    hints=[
        "How many effects did each single order have? Two questions are enough: was it 0 for any of them, and was it more than 1 for any?",
        "`Counter(effects)[order]` is that number, and 0 for an order that never came.",
    ],
    returns=str,
)
def delivery_guarantee(answer: Answer, rng: Generator) -> None:
    """Count for each order by itself: a lost effect and a doubled one cancel out in every total."""
    again = rng.integers(len(STORIES), size=len(STORIES))
    for place in (*rng.permutation(len(STORIES)), *again):  # each of them, and some once more
        special, numbers, word = STORIES[place]
        orders, effects = _told(rng, numbers)
        with answer.case(f"orders {', '.join(orders)}; effects {', '.join(effects) or 'none'}: {special}"):
            got = answer(orders, effects)
            expect(got in PROMISES, f"{got!r} is not one of the words {WORDS}.")
            counts = Counter(effects)
            most, least = max(counts[order] for order in orders), min(counts[order] for order in orders)
            expect_equal(got, word, f"{got!r} is wrong: here the orders had {least} to {most} effects each.")


@exercise(
    points=3,
    minutes=15,
    hints=[
        "What must be true of the file at every moment, so that a reader finds the key and its policy, or neither of them?",
        "Read the list if the file is there, look for the key, else add an entry; write the whole list to another name, and `os.replace` it.",
        "Look for the key, not for the policy: two nights may learn the same weights, and both are published.",
    ],
)
def publish_once(answer: Answer, rng: Generator) -> None:
    """The key and its effect go into one file with one rename: a death finds both of them or neither."""
    first, second = (rng.integers(-9, 10, size=4).tolist() for _ in range(2))
    names = [f"night{number}-publish" for number in rng.choice(range(100, 1000), size=3, replace=False)]
    orders = [[names[0], first], [names[1], second], [names[2], first]]
    rows = answer.probe(given.publish_at_every_moment, orders)
    expect(len(rows) > 0, "No call of it was seen. Is it a function of a path, a key and a policy?")
    for row in rows:
        dead = f" (killed when it had just {row['killed']}, and made again)" if row["killed"] else ""
        with answer.case(
            f"five calls, with the keys 1 {names[0]}, 2 {names[1]}{dead}, 3 {names[0]}, 4 {names[2]}, 5 {names[1]}"
        ):
            _judge_registry(answer, row, orders)


def _judge_registry(answer: Answer, row: given.Published, orders: list) -> None:
    for call, (end, version) in enumerate(zip(row["ends"], (1, 2, 1, 3, 2), strict=True), 1):
        answer.got = repr(end["value"])
        expect(end["end"] == "value", f"Call {call} ended with {end['value']}.")
        expect_equal(
            end["value"],
            version,
            f"Call {call} returned {end['value']!r}. Which versions did the file hold by then, and under which keys?",
        )
    registry = row["registry"]
    answer.got = repr(registry)
    is_list = isinstance(registry, list) and all(isinstance(entry, dict) for entry in registry)
    expect(is_list, f"The registry does not hold a list of entries in JSON, but {registry!r}.")
    wanted = [{"key": key, "version": place, "policy": policy} for place, (key, policy) in enumerate(orders, 1)]
    shown = [{name: entry.get(name) for name in ("key", "version", "policy")} for entry in registry]
    listed = len(registry)
    expect_equal(shown, wanted, f"The registry has {listed} entries, and not one for each of the three keys.")


@exercise(
    points=5,
    minutes=20,
    hints=[
        "One file for each step of each run, named after both. If it is there, it holds the step's value, and you do not call the function.",
        "Write to another name, close the file, then `os.replace(new, path)`: a file that has its right name is always whole.",
        "The key must be the same at every attempt, and a different one for every step and every run. Which two names do you have?",
        "A result may be None, 0 or an empty list. Ask whether the file exists, not whether the value is true.",
    ],
)
def durable_pipeline(answer: Answer, rng: Generator) -> None:
    """A result that has its final name is whole and never computed again; a key made of run and step makes a repeated effect harmless."""
    # Long: a run has six histories here, and each attempt tells of calls, values, effects and its end.
    first, last, number = rng.integers(100, 1000, size=3).tolist()
    run, other, broken = f"night{number}", f"night{number}2", f"day{number}"
    steps: list[list] = [["1", {"fragments": [first, 7]}], ["2", None], ["3", 0], ["4", []]]
    steps.append(["21", f"report {last}"])  # written without a gap, this step of `run` is the first one of `other`
    sessions = [[[run, ""], [run, ""], [other, ""], [broken, "4"]], [[broken, ""]]]
    seen = answer.probe(given.run_sessions, steps, sessions)
    attempts = len(seen)
    expect(attempts == 5, f"Your pipeline was called 5 times, and {attempts} calls ended.")
    one, again, beside, failed, resumed = seen
    with answer.case(f"the run {run}, with the steps and results {steps}"):
        _judge_attempts([one], steps)
    with answer.case(f"the run {run}, called a second time after it had finished"):
        _judge_attempts([one, again], steps)
    with answer.case(f"the run {other} in the same folder, after the run {run}, both with the steps 1, 2, 3, 4, 21"):
        expect(beside["begins"], "It called none of its steps: it took the other run's files for its own.")
        _judge_attempts([beside], steps)
    with answer.case("the step 4 had its effect, and raised a ConnectionError"):
        expect(failed["end"] == "error", f"The pipeline returned {failed['value']!r} as if nothing had happened.")
        expect(
            "ConnectionError" in str(failed["value"]),
            f"The caller saw {failed['value']} instead of the step's own error.",
        )
    with answer.case("the step 4 had raised an error; the same run was called by another Python, and nothing failed"):
        _judge_attempts([failed, resumed], steps)
    for killed, after in answer.probe(given.die_at_every_moment, steps, run):
        with answer.case(f"the process was killed when it had just {killed['value']}, and the run called again"):
            _judge_attempts([killed, after], steps)


def _judge_attempts(ends: list[given.End], steps: list[list]) -> None:
    """The attempts of one run: the last one finishes it, no step that had ended is called again, and each effect happens once."""
    last, wanted = ends[-1], steps[-1][1]
    expect(last["end"] == "value", f"It ended with {last['value']}.")
    expect_equal(last["value"], wanted, f"It returned {last['value']!r}; the last step returned {wanted!r}.")
    before = {"1": None} | {name: result for (_, result), (name, _) in pairwise(steps)}
    done: set[str] = set()
    for end in ends:
        for name, value in end["begins"]:
            expect(name not in done, f"The step {name} had ended before, and was called again.")
            returned = before.get(name)
            expect_equal(
                value,
                returned,
                f"The step {name} was called with {value!r}; the step before it had returned {returned!r}.",
            )
        names = [name for name, _ in end["begins"]]
        done.update(names if end["end"] == "value" else names[:-1])
    for name, _ in steps:
        keys = [key for end in ends for effect, key in end["effects"] if effect == name]
        expect(keys, f"The effect of the step {name} never happened. Was it called, with a key that no other step has?")
        times, listed = len(keys), ", ".join(keys)
        expect(times == 1, f"The effect of the step {name} happened {times} times, with the keys {listed}.")


question(
    "between_effect_and_checkpoint",
    """
    A step sends a mail, and its process dies before the checkpoint is written. What saves you from a second mail?

    a) The checkpoint.
        It was never written: the step runs again, and sends again.
    *b) The key that goes with the mail: the receiver has seen it.
        Right: the step runs twice, and the effect happens once, because both attempts carry the same key.
    c) Writing the checkpoint before the mail.
        Then a death between the two leaves a step that counts as done, and no mail at all.
    """,
)

question(
    "what_a_key_is_made_of",
    """
    A step publishes a policy, and may be called again after a death. Which key lets the registry recognise the second call?

    a) `uuid.uuid4().hex`, made when the step begins.
        The second call makes a new key, so the registry takes it for another order.
    b) The hash of the policy's weights.
        Two nights that learn the same weights have the same key, and the second is never published.
    *c) The name of the run and the name of the step.
        Right: both attempts know them, and no other run or step has both.
    """,
)

question(
    "what_exactly_once_means",
    """
    A workflow system promises that a step never runs more than once unless you ask for retries. A machine dies while
    its step sends a mail. What do you know in the morning?

    a) The mail was sent once.
        The machine may have died before it sent anything.
    *b) The step failed, and the mail was sent once or not at all.
        Right: for an effect outside, a step that never runs twice is at most once. You look into the outbox, or you retry with a key.
    c) The system will send it again.
        That would be a second run. You have not asked for retries.
    """,
)

question(
    "two_drivers",
    """
    The driver of `night1` seems to be dead, so you start it again. In truth it only hung, and now goes on. What do the checkpoints do?

    a) They stop the second driver.
        A checkpoint is a file from a step that has ended. It does not say who is at work.
    *b) Nothing: both run the step that has none yet, and only the keys keep effects from doubling.
        Right: checkpoints protect against deaths, not twins. A lock or a lease does, and the keys save the effects.
    c) They merge both results.
        The later rename wins, and the other result is gone.
    """,
)
