"""The judge's side of chapter 25."""

from collections import Counter
from itertools import pairwise

from numpy.random import Generator

from coursekit.given import ch25_pipelines as given
from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import expect, expect_equal

GUARANTEES = ("exactly once", "at most once", "at least once", "none")
WORDS = ", ".join(GUARANTEES)
STORIES = (  # how many effects each of four orders had
    ("every order had its effect, but in a different sequence", (1, 1, 1, 1), "exactly once"),
    ("one order had no effect", (0, 1, 1, 1), "at most once"),
    ("nothing has happened", (0, 0, 0, 0), "at most once"),
    ("two orders had their effect twice", (2, 2, 1, 1), "at least once"),
    ("every order had its effect twice", (2, 2, 2, 2), "at least once"),
    ("as many effects as orders: one order had two, and one had none", (0, 2, 1, 1), "none"),
    ("more effects than orders: three orders had two, and one had none", (0, 2, 2, 2), "none"),
    ("fewer effects than orders: one order had two, and three had none", (0, 0, 0, 2), "none"),
)


def _told(rng: Generator, counts: tuple[int, ...]) -> tuple[list[str], list[str]]:
    """Return orders, and effects that come as often as this, never in the order in which they were ordered."""
    orders = [f"order-{number}" for number in rng.choice(range(100, 1000), size=len(counts), replace=False)]
    all_effects = [order for order, count in zip(orders, rng.permutation(counts), strict=True) for _ in range(count)]
    effects = [all_effects[place] for place in rng.permutation(len(all_effects))]
    return orders, effects[::-1] if effects == orders else effects


@exercise(
    points=2,
    minutes=10,
    hints=[
        "How many effects did each single order have? Ask two questions: did any order have none, and did any order have more than one?",
        "`Counter(effects)[order]` is the number of an order's effects; it's 0 if there were none.",
    ],
    returns=str,
    spare=["    lost, duplicated = len(effects) < len(orders), len(effects) > len(orders)"],
)
def delivery_guarantee(answer: Answer, rng: Generator) -> None:
    """Count each order's effects separately, because a lost effect and a duplicate cancel out in every total."""
    again = rng.integers(len(STORIES), size=len(STORIES) // 2)
    for place in (*rng.permutation(len(STORIES)), *again):  # each of them, and some once more
        special, numbers, word = STORIES[place]
        orders, effects = _told(rng, numbers)
        with answer.case(f"orders {', '.join(orders)}; effects {', '.join(effects) or 'none'}: {special}"):
            got = answer(orders, effects)
            expect(got in GUARANTEES, f"{got!r} is not one of the four answers: {WORDS}.")
            counts = Counter(effects)
            most, least = max(counts[order] for order in orders), min(counts[order] for order in orders)
            expect_equal(
                got,
                word,
                f"The order with the fewest effects had {least}, and the one with the most had {most}. The strongest guarantee that fits isn't {got!r}.",
            )


@exercise(
    points=3,
    minutes=15,
    hints=[
        "What must be true of the file at every moment, so that a reader finds both the key and its policy, or neither?",
        "Read the list if the file exists, and look for the key. If it isn't there, add an entry, write the whole list to a temporary file, close that file, and call `os.replace`.",
        "Look for the key, not for the policy: two nights may learn the same weights, and a repeated call may pass different ones.",
    ],
    spare=["            return len(entries)"],
)
def publish_once(answer: Answer, rng: Generator) -> None:
    """The key and its effect go into one file with one atomic rename, so after a death the file has both or neither."""
    # Long: it reads the file after a death at every moment, and each entry's version, key, and policy has its message.
    first, second, other = (rng.integers(10 * place, 10 * place + 10, size=4).tolist() for place in range(3))
    names = [f"night{number}-publish" for number in rng.choice(range(100, 1000), size=3, replace=False)]
    orders = [[names[0], first], [names[1], second], [names[2], first], [names[0], other]]
    rows = answer.probe(given.publish_at_every_moment, orders)
    expect(len(rows) > 0, "No call was recorded. `publish_once` must be a function of a path, a key, and a policy.")
    for row in rows:
        dead = (
            f" (its process was killed when it had just {row['killed']}, and the call was repeated)"
            if row["killed"]
            else ""
        )
        with answer.case(
            f"five calls with these keys: (1) {names[0]}; (2) {names[1]}{dead}; (3) {names[0]}, with another policy; "
            f"(4) {names[2]}, with the policy of call 1; (5) {names[1]}"
        ):
            _judge_registry(answer, row, orders[:3])


def _judge_registry(answer: Answer, row: given.Published, orders: list) -> None:
    for call, (end, version) in enumerate(zip(row["ends"], (1, 2, 1, 3, 2), strict=True), 1):
        answer.got = repr(end["value"])
        expect(end["end"] == "value", f"Call {call} ended with {end['value']}.")
        expect_equal(
            end["value"],
            version,
            f"Call {call} returned {end['value']!r}. Keys get the versions 1, 2, 3, … in the order in which they first arrive.",
        )
    registry = row["registry"]
    answer.got = repr(registry)
    is_list = isinstance(registry, list) and all(isinstance(entry, dict) for entry in registry)
    expect(is_list, f"The registry should be a list of entries in JSON, but it's {registry!r}.")
    found = [(entry.get("version"), entry.get("key")) for entry in registry]
    wanted = [(version, key) for version, (key, _) in enumerate(orders, 1)]
    expect_equal(
        found,
        wanted,
        f"The registry has these versions and keys, from first to last: {found}. They should be the versions 1, 2, and 3, with the latest last.",
    )
    for entry, (key, policy) in zip(registry, orders, strict=True):
        held = entry.get("policy")
        expect_equal(
            held, policy, f"The registry has the policy {held!r} under {key}, which was published with {policy!r}."
        )


@exercise(
    points=5,
    minutes=20,
    hints=[
        "Use one file for each step of each run, named after both. If it exists, it holds the step's result, and you don't call the function.",
        "Write to another name, close the file, then call `os.replace(new, path)`: a file with its final name is always complete.",
        "The key must be the same in every attempt, and different for every step and every run. Which two names do you have?",
        "A result may be None, 0, or an empty list. Test whether the file exists, not whether the value is true.",
    ],
    spare=["        key = name"],
)
def durable_pipeline(answer: Answer, rng: Generator) -> None:
    """A file with its final name is complete, so its step is never called again; a key made of run and step makes a repeated effect harmless."""
    # Long: a run has six histories here, and each attempt tells of calls, values, effects and its end.
    first, last, number = rng.integers(100, 1000, size=3).tolist()
    run, other, broken = f"night{number}2", f"night{number}", f"day{number}"
    steps: list[list] = [["1", {"fragments": [first, 7]}], ["2", None], ["3", 0], ["4", []]]
    steps.append(["21", f"report {last}"])  # written without a gap, this step of `other` is the first one of `run`
    sessions = [[[run, ""], [run, ""], [other, ""], [broken, "4"]], [[broken, ""]]]
    seen = answer.probe(given.run_sessions, steps, sessions)
    attempts = len(seen)
    expect(attempts == 5, f"Your pipeline was called 5 times, but {attempts} of the calls were recorded.")
    one, again, beside, failed, resumed = seen
    with answer.case(f"the run {run}, with the steps and results {steps}"):
        _judge_attempts([one], steps)
    with answer.case(f"the run {run}, called a second time after it had finished"):
        _judge_attempts([one, again], steps)
    with answer.case(
        f"the run {other} in the same folder, after the run {run}, both with the steps 1, 2, 3, 4, and 21"
    ):
        _judge_attempts([beside], steps)
    with answer.case("step 4 had its effect and then raised a ConnectionError"):
        expect(
            failed["end"] == "error", f"The pipeline returned {failed['value']!r} instead of raising the step's error."
        )
        expect(
            "ConnectionError" in str(failed["value"]),
            f"The caller got {failed['value']} instead of the step's own error.",
        )
    with answer.case(
        "step 4 had raised an error; another Python process called the same run again, and this time, no step raised an error"
    ):
        _judge_attempts([failed, resumed], steps)
    for killed, after in answer.probe(given.die_at_every_moment, steps, run):
        with answer.case(f"the process was killed when it had just {killed['value']}, and the run was called again"):
            _judge_attempts([killed, after], steps)


def _judge_attempts(ends: list[given.End], steps: list[list]) -> None:
    """The attempts of one run: the last one finishes it, no step that had ended is called again, and each effect happens once."""
    last, wanted = ends[-1], steps[-1][1]
    expect(last["end"] == "value", f"Your pipeline ended with {last['value']}.")
    expect_equal(
        last["value"],
        wanted,
        f"Your pipeline returned {last['value']!r} instead of the last step's result, {wanted!r}.",
    )
    before = {"1": None} | {name: result for (_, result), (name, _) in pairwise(steps)}
    done: set[str] = set()
    for end in ends:
        for name, value in end["begins"]:
            expect(name not in done, f"Step {name} was called again, though an earlier attempt had finished it.")
            due = before.get(name)
            expect_equal(
                value,
                due,
                f"Step {name} was called with the value {value!r}; this value should have been {due!r}.",
            )
        names = [name for name, _ in end["begins"]]
        done.update(names if end["end"] == "value" else names[:-1])
    called = {name for end in ends for name, _ in end["begins"]}
    for name, _ in steps:
        expect(name in called, f"Step {name} was never called in this run.")
        keys = [key for end in ends for effect, key in end["effects"] if effect == name]
        expect(keys, f"Step {name} was called, but its effect never happened: another step or run had used its key.")
        times, listed = len(keys), ", ".join(keys)
        expect(times == 1, f"The effect of step {name} happened {times} times, with the keys {listed}.")
        expect(keys[0][0] in "'\"", f"The key of step {name} should be a string, but it's {keys[0]}.")


question(
    "between_effect_and_checkpoint",
    """
    A step sends an email, and its process dies before it saves the checkpoint. What keeps the email from counting twice?

    a) The checkpoint.
        It was never saved, so the step runs again and sends again.
    *b) The idempotency key that is sent with the email, if the receiver remembers keys.
        Right: the step runs twice and the effect happens once, because both attempts send the same key.
    c) Saving the checkpoint before sending the email.
        Then a death between the two leaves a step that counts as done, and no email at all.
    """,
)

question(
    "what_a_key_is_made_of",
    """
    A step publishes a policy, and it may be called again after a death. Which key lets the registry recognize the second call?

    a) `uuid.uuid4().hex`, made when the step starts.
        The second call makes a new key, so the registry takes it for another policy.
    b) The hash of the policy's weights.
        If two nights learn the same weights, they have the same key, and the second night is never published.
    *c) The name of the run and the name of the step.
        Right: both attempts can make this key, and no other run or step can.
    """,
)

question(
    "what_exactly_once_means",
    """
    A workflow system guarantees that a step never runs more than once unless you ask for retries, and you haven't asked.
    A machine dies while its step sends an email. What do you know in the morning?

    a) The email was sent once.
        The machine may have died before it sent anything.
    *b) The step failed, and the email was sent once or not at all.
        Right: a step that is never repeated has an outside effect at most once. Look in the outbox, or retry with a key.
    c) The system will send it again.
        That would be a second run, and you haven't asked for retries.
    """,
)

question(
    "two_drivers",
    """
    The driver of `night1` seems to be dead, so you start a second driver for the same run. In fact, the first driver was only
    stuck, and now it continues. What do the checkpoints do about the second driver?

    a) They stop it.
        A checkpoint says that a step has finished, not which process is working on the next one.
    *b) Nothing: both drivers run the step that has no checkpoint yet, and only its key protects the effect.
        Right: checkpoints protect a run against deaths, not against a second driver. That takes a lock, or a receiver that refuses the older driver.
    c) They merge the results of the two drivers.
        The later rename wins, and the other result is gone.
    """,
)
