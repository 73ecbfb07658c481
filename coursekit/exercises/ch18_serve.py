"""The judge's side of chapter 18."""

from collections.abc import Callable
from itertools import cycle
from typing import Any, Concatenate, ParamSpec, TypedDict, TypeVar

import numpy as np
from numpy.random import Generator

from coursekit.given import ch18_serve as given
from coursekit.judging.answer import Answer, Raised
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import agree, expect, expect_close, expect_equal

T = TypeVar("T")
P = ParamSpec("P")
CLOCK = 0.005  # seconds by which a pause may seem shorter than it was
LATE = 0.5  # seconds by which it may seem longer
TALKS = 3  # conversations: a client is late in all of them, a busy machine is not
ROOM = 100  # requests that a replica with batches takes at once
FIRST = 5.0  # a pause so long that a client which begins with one is seen


def _network(rng: Generator, actions: int) -> tuple[list, np.ndarray]:
    """Return random layers of a policy with this many actions, as lists, and 16 observations."""
    shapes = [[(6, 4), (6,)], [(actions, 6), (actions,)]]
    layers = [[rng.normal(0, 2, size=shape).round(2).tolist() for shape in layer] for layer in shapes]
    return layers, rng.normal(0, 1, size=(16, 4)).round(3)


def _best(layers: list, observations: np.ndarray) -> list[int]:
    """Return the judge's own actions."""
    (hidden, offset), (last, bias) = [[np.array(part) for part in layer] for layer in layers]
    return (np.tanh(observations @ hidden.T + offset) @ last.T + bias).argmax(axis=1).tolist()


def _expect_answer(answer: Any, wanted: dict) -> None:
    """Check the entries of one answer of a service."""
    expect(isinstance(answer, dict), f"The answer was {answer!r}, not a dictionary.")
    for name, value in wanted.items():
        expect(name in answer, f"The answer was {answer}: {name!r} is missing.")
        expect_equal(answer[name], value, f"The answer was {answer}; {name!r} should be {value}.")
    expect(isinstance(answer.get("pid"), int), f"The answer was {answer}: 'pid' must be a process's number.")


def _probe(answer: Answer, probe: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what a probe returns; where a coroutine is taken for its result, say so."""
    try:
        return answer.probe(probe, *args, **kwargs)
    except Raised as raised:
        more = ". Is an `await` missing?" if "coroutine" in raised.message else ""
        message = raised.message.rstrip(".") + more if more else raised.message
        raise Raised(raised.kind, message, raised.where, raised.todo) from None


def _expect_application(facts: given.Settings, replicas: int, cpus: float) -> None:
    expect(
        facts["returned"] == "an application",
        f"It returned a {facts['returned']}. Return what `.bind(...)` gives you: an application that is not running yet.",
    )
    expect_equal(
        facts["replicas"], replicas, f"The application's number of replicas is {facts['replicas']}, not {replicas}."
    )
    expect_close(facts["cpus"], cpus, f"The application's CPUs for each replica: {facts['cpus']}, not {cpus}.")


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 4},
    hints=[
        "What the service needs once belongs in `__init__`; what it does for each request belongs in `__call__`.",
        "`await request.json()` is the dictionary that was posted. `model.actions` takes a list of observations, here with one.",
        'The number of replicas and their CPUs are options: `Name.options(num_replicas=…, ray_actor_options={"num_cpus": …}).bind(model)`.',
    ],
)
def policy_service(answer: Answer, rng: Generator) -> None:
    """Load once in `__init__`, answer in an async `__call__`, and leave replicas and CPUs to the options."""
    # Long: a service is asked in this process, and over HTTP, where the model tells which replicas it was asked in.
    layers, observations = _network(rng, int(rng.integers(5, 9)))
    version, replicas, cpus = int(rng.integers(3, 1000)), 2, float(rng.choice([0.1, 0.15, 0.2, 0.25]))
    wanted = [{"action": action, "version": version} for action in _best(layers, observations)]
    facts = _probe(answer, given.service_alone, layers, version, 3, cpus, observations.tolist())
    _expect_application(facts, replicas=3, cpus=cpus)
    answered, asked = len(facts["answers"]), len(wanted)
    expect(answered == asked, f"{asked} requests were made, and {answered} were answered.")
    for obs, right, got in zip(observations.tolist(), wanted, facts["answers"], strict=True):
        with answer.case(f"the observation {obs}"):
            _expect_answer(got, right)
    seen = _probe(answer, given.serve_and_ask, layers, version, replicas, cpus, observations.tolist())
    with answer.case(f"a deployment with {replicas} replicas, asked over HTTP"):
        _judge_served(seen, wanted, replicas)


def _judge_served(seen: given.Served, wanted: list[dict], replicas: int) -> None:
    """Check the answers that came over HTTP, and who gave them."""
    expect(not seen["stuck"], f"After a minute it was not running: {seen['stuck']}")
    answered, asked = len(seen["answers"]), len(seen["pids"])
    expect(answered >= len(wanted), f"Only {answered} requests were answered.")
    for right, (status, got) in zip(cycle(wanted), seen["answers"], strict=False):
        expect(status == 200, f"A request over HTTP was answered with status {status}: {got}")
        _expect_answer(got, right)
    told = sorted({got["pid"] for _, got in seen["answers"]})
    expect(asked == replicas, f"Requests answered: {answered}; processes in which the model was asked: {asked}.")
    expect_equal(told, seen["pids"], f"The answers name the processes {told}; the model was asked in {seen['pids']}.")


@exercise(
    points=3,
    minutes=15,
    hints=[
        "A loop over the tries. In which cases does it end at once, and in which does it continue?",
        "`requests.post(url, json=…, timeout=timeout)` raises `requests.Timeout` or `requests.ConnectionError` when no answer comes.",
        "Of the statuses from 400 to 499, only 408 and 429 are worth another try: with the others, the same request stays wrong. Sleep only before a next try.",
    ],
)
def client(answer: Answer, rng: Generator) -> None:
    """Give every try a time limit, try again only what another try can fix, and wait longer each time."""
    # Long: a service plays seven scripts: it answers, fails, stalls, hangs up, and says that the request is wrong.
    for script, tries in ([], 3), ([503, 429, 408, 500], 5), (["stall"], 2), (["drop"], 2):
        with answer.case(f"{tries} tries; what the service does before it answers: {script}"):
            _judge_patience(answer, rng, script, tries)
    wrong = int(rng.choice([400, 404, 422]))  # 408 and 429 are no faults of the client
    with answer.case(f"a service that answers with {wrong}"):
        seen = _talk(answer, rng, [wrong] * 4, {}, 3, 0.01, late=lambda seen: False)
        expect(seen["raised"], f"`client` returned {seen['returned']!r}; it must raise an exception.")
        sent = len(seen["bodies"])
        expect(sent == 1, f"Requests sent: {sent}, not 1. The request is wrong, and it will be wrong again.")
    for act in (503, "drop"):
        tries = int(rng.integers(2, 5))
        with answer.case(f"{tries} tries; what the service does at each: {act!r}"):
            _judge_the_end(answer, rng, act, tries)


def _judge_patience(answer: Answer, rng: Generator, script: list, tries: int) -> None:
    """The service answers in the end: the client has to try again until then, with longer and longer pauses."""
    reply = {"action": int(rng.integers(10_000)), "version": int(rng.integers(10_000))}
    pause = 0.1 if script else FIRST
    waits = [] if "stall" in script else [pause * 2**number for number in range(len(script))]

    def late(seen: given.Talk) -> bool:
        timed = zip(waits, seen["pauses"], strict=False)
        return any(waited > 2 * wanted + LATE for wanted, waited in timed) or (
            "stall" in script and seen["raised"] != ""
        )

    seen = _talk(answer, rng, script, reply, tries, pause, late)
    expect(not seen["raised"], f"`client` raised {seen['raised']}")
    sent, needed = len(seen["bodies"]), len(script) + 1
    expect(bool(script) or seen["before"] < pause, "Your client pauses before its first try: pause only between tries.")
    expect(
        script != ["stall"] or sent > 1,
        "Your client waited for the stalled answer to its end: has each try a time limit, the given one?",
    )
    expect(sent == needed, f"Requests sent: {sent}, not {needed}.")
    expect_equal(seen["returned"], reply, f"The answer was {reply}; `client` returned {seen['returned']!r}.")
    for number, (wanted, waited) in enumerate(zip(waits, seen["pauses"], strict=False), 1):
        expect(
            wanted - CLOCK <= waited <= 2 * wanted + LATE,
            f"After failure {number} the next try came {waited:.3f} s later; with pause={pause} wait {wanted} s.",
        )


def _judge_the_end(answer: Answer, rng: Generator, act: object, tries: int) -> None:
    """No try succeeds: the client raises as soon as it knows."""
    last = 1.0  # the pause that would follow the last try
    seen = _talk(answer, rng, [act] * 9, {}, tries, last / 2 ** (tries - 1), lambda seen: seen["after"] >= last)
    expect(seen["raised"], f"`client` returned {seen['returned']!r}; it must raise an exception.")
    sent = len(seen["bodies"])
    expect(sent == tries, f"Requests sent: {sent}, not {tries}.")
    expect(
        seen["after"] < last,
        f"It returned {seen['after']:.1f} s after its last try had failed: wait only if another try follows.",
    )


def _talk(
    answer: Answer,
    rng: Generator,
    script: list,
    reply: dict,
    tries: int,
    pause: float,
    late: Callable[[given.Talk], bool],
) -> given.Talk:
    """Return what came of a conversation, the first that was not late, whose requests must all carry the observation."""
    obs = rng.normal(size=4).round(3).tolist()
    timeout = 0.5 if "stall" in script else 20.0
    for _ in range(TALKS):
        seen = answer.probe(given.talk, script, obs, reply, timeout, tries, pause)
        if not late(seen):
            break
    for body in seen["bodies"]:
        expect_equal(body, {"obs": obs}, f'The service was sent {body!r}; it wants JSON: {{"obs": {obs}}}.')
    return seen


class Summary(TypedDict):
    """What `load_test` returns: how many requests failed, answers per second, percentiles of the latencies in seconds."""

    failed: float
    per_second: float
    p50: float
    p95: float
    p99: float


@exercise(
    points=3,
    minutes=10,
    hints=[
        "When does a user begin to wait: at `due`, or at `sent`? They differ when the generator was late.",
        "Only answers with status 200 have a latency that counts. Count the others as failed.",
        "`np.percentile(latencies, [50, 95, 99])`. Answers a second: how many, divided by the time from the first `due` to the last `done`.",
    ],
    returns=Summary,
)
def load_test(answer: Answer, rng: Generator) -> None:
    """Count the wait from when a request was due, leave failures out of the latencies, and report them separately."""
    for late in (False, True):
        count, failed = int(rng.integers(380, 420)), int(rng.integers(20, 40))
        rows = _requests(rng, count, failed, late)
        with answer.case(f"{count} rows, {failed} of them failed: [{rows[0]}, {rows[1]}, …]"):
            got = answer(rows)
            expect_equal(got["failed"], failed, f"You count {got['failed']} failed requests.")
            seconds = max(row["done"] for row in rows) - min(row["due"] for row in rows)
            expect_close(
                got["per_second"],
                (count - failed) / seconds,
                f"From the first due to the last done of all requests {seconds:.4f} s passed; you say {got['per_second']:.4g} answers a second.",
                rtol=1e-6,
            )
            _judge_percentiles(got, rows)


def _requests(rng: Generator, count: int, failed: int, late: bool) -> list[dict]:
    """Return rows of a load generator; `late` ones were sent after they were due. Failed ones were fast."""
    due = rng.uniform(100, 10_000) + np.arange(count) / rng.uniform(40, 90)
    lag = rng.uniform(0.2, 0.6, size=count) * (rng.uniform(size=count) < 0.3) * late
    lag[0] = 0.4 * late  # the first was due before any was sent
    took = rng.gamma(2.0, 0.02, size=count) + 0.005
    status = np.full(count, 200)
    chosen = np.append(0, 1 + rng.permutation(count - 1))[:failed]  # the first fails: time counts from its due, too
    status[chosen] = rng.choice([0, 500, 503], size=failed)
    took[chosen] = 0.0005
    rows = [
        {"due": round(d, 4), "sent": round(d + g, 4), "done": round(d + g + t, 4), "status": int(s)}
        for d, g, t, s in zip(due.tolist(), lag.tolist(), took.tolist(), status, strict=True)
    ]
    return [rows[place] for place in rng.permutation(count)]


def _judge_percentiles(got: dict[str, float], rows: list[dict]) -> None:
    """Check each percentile: where definitions differ, all values between the neighbours are right."""
    latencies = np.sort([row["done"] - row["due"] for row in rows if row["status"] == 200])
    for name, share in (("p50", 0.50), ("p95", 0.95), ("p99", 0.99)):
        place = share * (len(latencies) - 1)
        # Definitions differ by a neighbour.
        low, high = latencies[int(place)], latencies[min(int(place) + 2, len(latencies) - 1)]
        value = got[name]
        within = low <= value <= high or agree(value, low, 1e-6) or agree(value, high, 1e-6)
        expect(
            within,
            f"{share:.0%} of the answers came within {high:.4f} s of when they were due; your {name} is {value:.4f} s.",
        )


@exercise(
    points=3,
    minutes=20,
    needs={"CPU": 4},
    hints=[
        "Two methods: `__call__` gets one request and awaits; the one below `@serve.batch(...)` gets a list and returns a list.",
        "A method of a class inside your function may use the function's arguments: `@serve.batch(max_batch_size=size, …)`.",
        "How many requests may be in a replica at once? That is the option `max_ongoing_requests`, five by default. The task names a number.",
    ],
)
def batched_service(answer: Answer, rng: Generator) -> None:
    """Await one result in `__call__`, compute all of them in one call of the model, and let enough requests in."""
    # Long: batches are counted in this process, where requests come at chosen moments, and over HTTP, all at once.
    size, replicas = int(rng.integers(6, 8)), int(rng.integers(2, 5))
    layers, observations = _network(rng, int(rng.integers(5, 9)))
    observations = observations[: 2 * size]
    best = _best(layers, observations)
    facts = _probe(answer, given.batched_settings, layers, size, 0.01, replicas)
    _expect_application(facts, replicas=replicas, cpus=0.2)
    one = observations[int(rng.integers(2 * size))]
    with answer.case("one request, alone, with wait=0.05"):
        seen = _probe(answer, given.batches_alone, layers, size, 0.05, [one.tolist()], 0)
        _judge_batches(seen["sizes"], [1], seen["answers"], _best(layers, one[None]))
    with answer.case(f"size={size}, wait=30; {size // 2} requests, then a pause, then {2 * size - size // 2} more"):
        seen = _probe(answer, given.batches_alone, layers, size, 30.0, observations.tolist(), size // 2)
        _judge_batches(seen["sizes"], [size, size], seen["answers"], best)
    expect(
        facts["at_once"] >= ROOM,
        f"With size={size}, a replica of yours takes at most {facts['at_once']} requests at once; the task asks for {ROOM} or more. "
        "The others wait in the proxy, where no batch sees them, and the proxy asks only now and then whether there is room.",
    )
    with answer.case(f"{2 * size} requests over HTTP at once, with size={size}"):
        served = answer.probe(given.serve_batches, layers, size, observations.tolist())
        expect(not served["stuck"], f"It was deployed, and after a minute it was not running: {served['stuck']}")
        for status, got in served["answers"]:
            expect(status == 200, f"A request over HTTP was answered with status {status}: {got}")
        _judge_batches(served["sizes"], [size, size], [got for _, got in served["answers"]], best)


def _judge_batches(sizes: list[int], wanted: list[int], answers: list, best: list[int]) -> None:
    expect_equal(sizes, wanted, f"The model was asked for batches of {sizes} observations, not {wanted}.")
    answered = len(answers)
    expect(answered == len(best), f"There were {answered} answers.")
    for action, got in zip(best, answers, strict=True):
        _expect_answer(got, {"action": action, "batch": wanted[0]})


question(
    "who_answers",
    """
    A service has one proxy and four replicas. Which of them is at the other end of the asking program's network connection?

    a) The replica that computes the answer.
        Replicas are Ray actors, and nothing outside the cluster connects to them.
    b) The controller.
        It starts and watches the others. No request ever passes through it.
    *c) The proxy: it takes the HTTP request, chooses a replica, and hands it over.
        Right. So replicas may come and go, and the address stays.
    """,
)

question(
    "never_running",
    """
    `serve.run` does not return. `serve.status()` says DEPLOYING, and one replica STARTING, for minutes. What do you look at first?

    a) The code of `__init__`: it must have raised an exception.
        Then the status would be DEPLOY_FAILED after a few tries, with the exception in `message`.
    *b) What a replica asks for, and what is free: it may wait for CPUs that never come.
        Right. `message` says so after 30 s, and so does `ray status`. Ask for less, or make room.
    c) The port: another program may listen there.
        The proxy has the port, not the replica, and Serve had already started.
    """,
)

question(
    "which_percentile",
    """
    A page of a web shop asks the service 20 times, and waits for the slowest answer. In about how many of 100 page views is the slowest above the service's p95?

    a) In 5.
        That holds for a single answer. A page is fast only if all 20 stay below p95.
    *b) In 64.
        Right: all 20 stay below p95 with the probability 0.95²⁰ = 0.36. A tail that is rare for a request is common for a page.
    c) In all 100: 20 times 5 % is 100 %.
        That counts a page with two slow answers twice. All 20 stay below p95 with the probability 0.95²⁰ = 0.36.
    """,
)

question(
    "batch_alone",
    """
    `@serve.batch(max_batch_size=32, batch_wait_timeout_s=0.1)`, and a single user who sends the next request after each answer. What happens?

    *a) Every answer takes at least 0.1 s: each request waits for 31 others that never come.
        Right. Batches help when many ask at once; for one user they are a waiting room.
    b) Nothing changes: a batch of one is sent at once.
        The replica cannot know that no other request will come, so it waits.
    c) The user waits forever.
        Only until the waiting time is over: then the batch goes as it is.
    """,
)

question(
    "both_versions",
    """
    A deployment has ten replicas, and Serve replaces two at a time. Which versions may a client see if it asks again and again?

    a) First the old one, and from some request on only the new one.
        That needs one replica, or all replaced in one moment. Here eight old ones still answer when the first two are new.
    *b) The old one, then for a while now one and now the other, then only the new one.
        Right: for most of the update both versions answer. A program that remembers something between requests must cope with that.
    c) The old one, then errors, then the new one.
        Old replicas answer what they have before they stop. You saw no error.
    """,
)
