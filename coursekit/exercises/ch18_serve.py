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
START = 0.05  # seconds by which a time limit may seem shorter: the service notices a request a little late
LATE = 0.5  # seconds by which either may seem longer
TALKS = 3  # conversations: a client is late in all of them, a busy machine is not
ROOM = 100  # requests that a replica with batches accepts at a time
FIRST = 5.0  # a pause so long that a client which begins with one is seen
ACTS: dict = {
    "stall": "no answer for 5 s",
    "drop": "the connection breaks",
    "cut": "the connection breaks in the middle of an answer",
}


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
    expect(isinstance(answer, dict), f"The service answered {answer!r}, which isn't a dict.")
    for name, value in wanted.items():
        expect(name in answer, f"The answer was {answer}: {name!r} is missing.")
        expect_equal(answer[name], value, f"The answer was {answer}; {name!r} should be {value}.")
    expect(isinstance(answer.get("pid"), int), f"The answer was {answer}: 'pid' must be the ID of a process, an int.")


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
        f"Your function returned a {facts['returned']}. Return what `.bind(...)` returns: an application that isn't running yet.",
    )
    expect_equal(
        facts["replicas"],
        replicas,
        f"Replicas of your application: {facts['replicas']}. With replicas={replicas}, it should have {replicas}.",
    )
    expect_close(
        facts["cpus"], cpus, f"CPUs that each of your replicas requests: {facts['cpus']}. It should request {cpus}."
    )


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 4},
    hints=[
        "What does the service need once per replica? That belongs in `__init__`; what it does for each request belongs in `__call__`.",
        "`await request.json()` returns the dict that the client posted. `model.actions` takes a list of observations; here, the list has one item.",
        'The number of replicas and their CPUs are options: `Name.options(num_replicas=…, ray_actor_options={"num_cpus": …}).bind(model)`.',
    ],
    spare=["            body = request.json()"],
)
def policy_service(answer: Answer, rng: Generator) -> None:
    """Load once in `__init__`, answer in an async `__call__`, and set the replicas and their CPUs as options."""
    # Long: a service is asked in this process, and over HTTP, where the model tells which replicas it was asked in.
    layers, observations = _network(rng, int(rng.integers(5, 9)))
    version, replicas, cpus = int(rng.integers(3, 1000)), 2, float(rng.choice([0.1, 0.15, 0.2, 0.25]))
    wanted = [{"action": action, "version": version} for action in _best(layers, observations)]
    facts = _probe(answer, given.service_alone, layers, version, 3, cpus, observations.tolist())
    _expect_application(facts, replicas=3, cpus=cpus)
    answered, asked = len(facts["answers"]), len(wanted)
    expect(answered == asked, f"There were {asked} requests and {answered} answers.")
    for obs, right, got in zip(observations.tolist(), wanted, facts["answers"], strict=True):
        with answer.case(f"the observation {obs}"):
            _expect_answer(got, right)
    seen = _probe(answer, given.serve_and_ask, layers, version, replicas, cpus, observations.tolist())
    with answer.case(f"a deployment with {replicas} replicas, asked over HTTP"):
        _judge_served(seen, wanted, replicas)


def _judge_served(seen: given.Served, wanted: list[dict], replicas: int) -> None:
    """Check the answers that came over HTTP, and who gave them."""
    expect(not seen["stuck"], f"Your application was deployed, but it isn't running: {seen['stuck']}")
    answered, asked = len(seen["answers"]), len(seen["pids"])
    expect(answered >= len(wanted), f"There were only {answered} answers.")
    for right, (status, got) in zip(cycle(wanted), seen["answers"], strict=False):
        expect(status == 200, f"A request over HTTP was answered with status {status}: {got}")
        _expect_answer(got, right)
    told = sorted({got["pid"] for _, got in seen["answers"]})
    expect(
        asked == replicas,
        f"After {answered} requests, the model had been called in this many processes: {asked}, not {replicas}.",
    )
    expect_equal(
        told, seen["pids"], f"The answers give the process IDs {told}, but the model was called in {seen['pids']}."
    )


@exercise(
    points=3,
    minutes=15,
    hints=[
        "Write a loop over the attempts. In which cases does it end immediately, and in which does it continue?",
        "`requests.post(url, json=…, timeout=timeout)` raises an exception if there's no answer in time or only a part of one: "
        "`requests.Timeout`, `requests.ConnectionError`, or `requests.exceptions.ChunkedEncodingError`. All of them are subclasses of `requests.RequestException`.",
        "Of the statuses from 400 to 499, retry only after 408 and 429. Sleep only if another attempt follows.",
    ],
    spare=["        time.sleep(pause)"],
)
def client(answer: Answer, rng: Generator) -> None:
    """Give every attempt a time limit, retry only what a retry can fix, and double the pause each time."""
    # Long: a service follows ten scripts: it answers, late or not, fails, stalls, hangs up, and says that the request is wrong.
    _judge_a_late_answer(answer, rng, timeout=20, tries=40)
    for script, tries in ([], 3), ([503, 429, 408, 500], 5), (["stall"], 2), (["drop", 503, "cut"], 4):
        _judge_patience(answer, rng, script, tries)
    for wrong in 400, int(rng.integers(401, 408)), 499:  # 408 and 429 are no faults of the client
        with answer.case(f"a service that answers with {wrong}"):
            seen = _talk(answer, rng, [wrong] * 4, {}, 3, 0.01, late=lambda seen: False)
            expect(seen["raised"], f"`client` returned {seen['returned']!r}; it must raise an exception.")
            sent = len(seen["bodies"])
            expect(sent == 1, f"Requests sent: {sent}, not 1. The same request would fail again, so don't retry it.")
    for act, tries in (503, 1), ("drop", int(rng.integers(2, 5))):
        with answer.case(f"tries={tries}; each time, the service's reply is: {ACTS.get(act, act)}"):
            _judge_the_end(answer, rng, act, tries)


def _judge_a_late_answer(answer: Answer, rng: Generator, timeout: int, tries: int) -> None:
    """The first attempt gets an answer in time: no other request may come before, however slow this machine is."""
    reply = {"action": int(rng.integers(10_000))}
    with answer.case(f"timeout={timeout}, tries={tries}; the service answers after {given.HELD:g} s"):
        seen = _talk(answer, rng, ["hold"], reply, tries, 0.1, late=lambda seen: False, limit=timeout)
        sent = len(seen["bodies"])
        expect(
            not seen["raised"],
            f"`client` raised {seen['raised']}, though the service's answer to its first request came in time.",
        )
        expect(
            sent == 1,
            f"Requests sent: {sent}, not 1. The service's answer to the first one comes in time, because each attempt may take {timeout} s.",
        )
        expect_equal(seen["returned"], reply, f"The answer was {reply}; `client` returned {seen['returned']!r}.")


def _judge_patience(answer: Answer, rng: Generator, script: list, tries: int) -> None:
    """The service answers in the end: the client has to retry until then, with longer and longer pauses."""
    reply = {"action": int(rng.integers(10_000)), "version": int(rng.integers(10_000))}
    stalls, pause = script == ["stall"], 0.1 if script else FIRST
    limit, early = (0.4, START) if stalls else (20.0, CLOCK)
    waits = [pause * 2**number + limit * stalls for number in range(len(script))]

    def fits(wanted: float, waited: float) -> bool:
        return wanted - early <= waited <= 2 * wanted + LATE

    def late(seen: given.Talk) -> bool:
        return (stalls and seen["raised"] != "") or not all(map(fits, waits, seen["pauses"]))

    with answer.case(f"tries={tries}; the service's first replies: {[ACTS.get(act, act) for act in script]}"):
        seen = _talk(answer, rng, script, reply, tries, pause, late, limit)
        sent, needed = len(seen["bodies"]), len(script) + 1
        expect(
            not seen["raised"],
            f"`client` raised {seen['raised']}. Here, attempt {needed} of {tries} gets a complete answer with status 200, and `client` should return it.",
        )
        expect(
            bool(script) or seen["before"] < pause,
            "`client` pauses before its first attempt: pause only between attempts.",
        )
        expect(
            not stalls or sent > 1,
            f"`client` sent only one request, and the service answers it after 5 s. With timeout={limit}, an attempt without an answer must end after {limit} s, and then the next attempt follows.",
        )
        expect(sent == needed, f"Requests sent: {sent}, not {needed}.")
        expect(len(seen["pauses"]) == len(waits), "The times of some requests are missing.")
        expect_equal(seen["returned"], reply, f"The answer was {reply}; `client` returned {seen['returned']!r}.")
        for number, (wanted, waited) in enumerate(zip(waits, seen["pauses"], strict=True), 1):
            expect(
                not stalls or fits(wanted, waited),
                f"The second attempt started {waited:.3f} s after the first, not {wanted} s, which is the time limit plus the pause.",
            )
            expect(
                fits(wanted, waited),
                f"After failure {number}, the next attempt came {waited:.3f} s later; with pause={pause}, wait {wanted} s.",
            )


def _judge_the_end(answer: Answer, rng: Generator, act: object, tries: int) -> None:
    """No attempt succeeds: the client raises as soon as it knows."""
    last = 1.0  # the pause that would follow the last attempt
    seen = _talk(answer, rng, [act] * 9, {}, tries, last / 2 ** (tries - 1), lambda seen: seen["after"] >= last)
    expect(seen["raised"], f"`client` returned {seen['returned']!r}; it must raise an exception.")
    sent = len(seen["bodies"])
    expect(sent == tries, f"Requests sent: {sent}, not {tries}.")
    expect(
        seen["after"] < last,
        f"`client` raised {seen['after']:.1f} s after its last attempt had failed: pause only if another one follows.",
    )


def _talk(
    answer: Answer,
    rng: Generator,
    script: list,
    reply: dict,
    tries: int,
    pause: float,
    late: Callable[[given.Talk], bool],
    limit: float = 20.0,
) -> given.Talk:
    """Return what came of a conversation, the first that was not late, whose requests must all carry the observation."""
    obs = rng.normal(size=4).round(3).tolist()
    for _ in range(TALKS):
        seen = answer.probe(given.talk, script, obs, reply, limit, tries, pause)
        if not late(seen):
            break
    for body in seen["bodies"]:
        expect_equal(
            body,
            {"obs": obs},
            f'The JSON in the request was {body!r} (None if it was no JSON); the service expects {{"obs": {obs}}}.',
        )
    return seen


class Summary(TypedDict):
    """What `load_test` returns: how many requests failed, answers per second, and percentiles of the latency in seconds."""

    failed: float
    per_second: float
    p50: float
    p95: float
    p99: float


@exercise(
    points=3,
    minutes=10,
    hints=[
        "When does a user start to wait: at `due` or at `sent`? The two differ if the generator was late.",
        "Only requests with status 200 have a latency that counts. All others have failed.",
        "`np.percentile(latencies, [50, 95, 99])` computes the three percentiles. The throughput is the number of answers divided by the time from the first `due` to the last `done`.",
    ],
    returns=Summary,
    spare=['    seconds = max(row["done"] for row in rows) - min(row["sent"] for row in rows)'],
)
def load_test(answer: Answer, rng: Generator) -> None:
    """Measure latency from the moment a request was due, leave failures out of it, and report them separately."""
    for late in (False, True):
        count, failed = int(rng.integers(380, 420)), int(rng.integers(20, 40))
        rows = _requests(rng, count, failed, late)
        with answer.case(f"{count} rows, {failed} of them failed: [{rows[0]}, {rows[1]}, …]"):
            got = answer(rows)
            expect_equal(got["failed"], failed, f"`failed` is {got['failed']}; {failed} requests failed.")
            answered, seconds = count - failed, max(row["done"] for row in rows) - min(row["due"] for row in rows)
            expect_close(
                got["per_second"],
                answered / seconds,
                f"There are {answered} answers, and {seconds:.4f} s passed from the first due to the last done of all requests; your `per_second` is {got['per_second']:.4g}.",
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
    took[chosen], took[-3] = 0.0005, 0.7  # the last to be done is not the last that was due
    rows = [
        {"due": round(d, 4), "sent": round(d + g, 4), "done": round(d + g + t, 4), "status": int(s)}
        for d, g, t, s in zip(due.tolist(), lag.tolist(), took.tolist(), status, strict=True)
    ]
    return [rows[place] for place in rng.permutation(count)]


def _judge_percentiles(got: dict[str, float], rows: list[dict]) -> None:
    """Check each percentile: where definitions differ, all values between the neighbors are right."""
    latencies = np.sort([row["done"] - row["due"] for row in rows if row["status"] == 200])
    for name, share in (("p50", 0.50), ("p95", 0.95), ("p99", 0.99)):
        place = share * (len(latencies) - 1)
        low, high = latencies[int(place)], latencies[min(int(place) + 2, len(latencies) - 1)]
        value = got[name]
        within = low <= value <= high or agree(value, low, 1e-6) or agree(value, high, 1e-6)
        expect(
            within,
            f"{share:.0%} of the answers came at most {high:.4f} s after their request was due; your `{name}` is {value:.4f} s.",
        )


@exercise(
    points=3,
    minutes=20,
    needs={"CPU": 4},
    hints=[
        "Write two methods: `__call__` gets one request and awaits one result; the method under `@serve.batch(...)` gets a list and returns a list.",
        "A class inside your function can use the function's arguments: `@serve.batch(max_batch_size=size, …)`.",
        "How many requests may a replica handle at a time? That's the `max_ongoing_requests` option, which is 5 by default. The docstring says how many it should be.",
    ],
    spare=['            return [{"action": action, "batch": size, "pid": os.getpid()} for action in actions]'],
)
def batched_service(answer: Answer, rng: Generator) -> None:
    """Await one result in `__call__`, compute the whole batch in one call of the model, and accept enough requests."""
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
        f"With size={size}, each of your replicas accepts at most {facts['at_once']} requests at a time; it should accept at least {ROOM}. "
        "All further requests wait in the proxy, where they can't join a batch, and the proxy pauses before it asks again whether there's room.",
    )
    with answer.case(f"{2 * size} requests over HTTP at once, with size={size}"):
        served = answer.probe(given.serve_batches, layers, size, observations.tolist())
        expect(not served["stuck"], f"Your application was deployed, but it isn't running: {served['stuck']}")
        for status, got in served["answers"]:
            expect(status == 200, f"A request over HTTP was answered with status {status}: {got}")
        _judge_batches(served["sizes"], [size, size], [got for _, got in served["answers"]], best)


def _judge_batches(sizes: list[int], wanted: list[int], answers: list, best: list[int]) -> None:
    expect_equal(
        sizes, wanted, f"The model was called with batches of these sizes: {sizes}. They should have been {wanted}."
    )
    answered, asked = len(answers), len(best)
    expect(answered == asked, f"There were {answered} answers, not {asked}.")
    for number, (action, got) in enumerate(zip(best, answers, strict=True), 1):
        _expect_answer(got, {"batch": wanted[0]})
        expect_equal(
            got.get("action"),
            action,
            f"Request {number} of {asked} got the answer {got}; for the observation in this request, 'action' should be {action}.",
        )


question(
    "who_answers",
    """
    A service has one proxy and four replicas. A program sends it an HTTP request. Which process is at the other end of the program's network connection?

    a) The replica that computes the answer.
        Replicas are Ray actors. The proxy calls them; the program never connects to one.
    b) The controller.
        It starts and monitors the others. No request ever passes through it.
    *c) The proxy: it takes the HTTP request, chooses a replica, and forwards the request to it.
        Right. That's why replicas can start and stop while the address stays the same.
    """,
)

question(
    "never_running",
    """
    `serve.run` doesn't return. For minutes, `serve.status()` has shown the application as DEPLOYING and one replica as STARTING. What do you check first?

    a) The code of `__init__`: it must have raised an exception.
        Then the status would be DEPLOY_FAILED after a few attempts, with the exception in `message`.
    *b) What the replica requests and what is free: it may be waiting for CPUs that never become free.
        Right. `message` says so after 30 s, and so does `ray status`. Request less, or free some resources.
    c) The port: another program may be using it.
        The proxy uses the port, not the replica, and the proxy was already running.
    """,
)

question(
    "which_percentile",
    """
    To show a page, a web shop sends 20 requests to the service and waits for the slowest answer. If each answer is slow or fast independently of the others, in about how many of 100 page views is the slowest answer above the service's p95?

    a) In 5.
        That's right for a single request. A page is fast only if all 20 answers stay below p95.
    *b) In 64.
        Right. All 20 stay below p95 with probability 0.95²⁰ = 0.36. A tail that's rare for a request is common for a page.
    c) In all 100, because 20 times 5% is 100%.
        That counts a page with two slow answers twice. All 20 stay below p95 with probability 0.95²⁰ = 0.36.
    """,
)

question(
    "batch_alone",
    """
    A method has `@serve.batch(max_batch_size=32, batch_wait_timeout_s=0.1)`. There's a single user, who sends the next request after each answer. What happens?

    *a) Every answer takes at least 0.1 s, because each request waits for 31 others that never arrive.
        Right. Batches help when many users send requests at the same time; for a single user, they only add a wait.
    b) Nothing changes, because a batch of one is processed immediately.
        The replica can't know that no other request will arrive, so it waits until the time limit.
    c) The user waits forever.
        The wait ends after 0.1 s. Then the replica processes the batch, although it isn't full.
    """,
)

question(
    "both_versions",
    """
    A deployment has ten replicas, and in an update, Serve replaces two at a time. Which versions can a client get if it sends one request after another?

    a) First only the old version, and from some request on only the new one.
        That needs a single replica, or all of them replaced at the same moment. Here, eight old replicas still answer while the first two are replaced.
    *b) The old version, then for a while sometimes one and sometimes the other, then only the new one.
        Right. For most of the update, both versions answer. A program that keeps state between requests must cope with that.
    c) The old version, then errors, then the new one.
        Old replicas finish the requests that they have accepted before they stop. You saw no failed request in the update.
    """,
)
