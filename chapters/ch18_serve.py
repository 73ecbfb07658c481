# %% [markdown] you_learn_to="serve a policy over HTTP, load-test it, update it under load"
r"""
# Chapter 18 · Serving policies with Ray Serve

A trained policy becomes a service, and it stays up while you change it.

*About 120 minutes · builds on [Chapter 3](ch03_actors.ipynb); [Chapters 6](ch06_cluster.ipynb) and [11](ch11_rllib_ppo.ipynb) help*

**What you will be able to do**

- put a trained policy behind a web address with Ray Serve, so any program can ask it for actions;
- say which process answers, and find out why a replica does not start;
- limit how much waits before a service, and write a client that survives a slow answer, a refusal and a dropped connection;
- load a service from a second process, and read the percentiles of its latency without fooling yourself;
- choose a batch size and a number of replicas from a table you measured;
- let the number of replicas follow the load, put two policies behind one FastAPI front, and replace a policy under load without a failed request.
"""

# %%
import os
import threading
import time
from pathlib import Path

import gymnasium
import matplotlib.pyplot as plt
import numpy as np
import pandas
import ray
import requests
from ray import serve

from coursekit import begin, budget, check, hint, passed, progress, quiz, solution
from coursekit.given import ch18_serve as given
from coursekit.given.ch18_serve import Large, Policy, Stumbling
from coursekit.given.load import Load, generate

begin("ch18_serve")

# %%
os.environ["RAY_SERVE_SLOW_STARTUP_WARNING_S"] = "3"  # Serve says after 3 s, not 30, when a replica waits
os.environ["RAY_SERVE_SLOW_STARTUP_WARNING_PERIOD_S"] = "3"
ray.shutdown()  # ends a Ray that already runs here: its references and actors are gone
ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)  # replicas print into log files

port = given.free_port()
serve.start(
    http_options={"host": "127.0.0.1", "port": port},  # this machine alone; the default port is 8000
    logging_config={"log_level": "ERROR"},
)
url = f"http://127.0.0.1:{port}"

# %% [markdown] tags=["notes"]
r"""
The run sheet plans two hours, with `client`, the autoscaling and the killed replica as homework.
Let everyone run the two cells above at once: Ray and Serve take ten to fifteen seconds to start on a small laptop.
`num_cpus=4` is a promise, not a measurement: what a replica asks for is part of the chapter.
"""

# %% [markdown]
r"""
## What you serve is a few arrays

A service that answers "which action?" needs the weights, not RLlib: at the end of [chapter 11](ch11_rllib_ppo.ipynb) a trained CartPole agent was a few arrays, and NumPy computed its actions.
`given.Policy` holds two snapshots of such a run, with one hidden layer of eight units: version 1 after two iterations, version 2 after eighteen.
`policy.actions` takes *a list of observations* and returns a list with one action for each.

You may also serve **your own network**: if you kept chapter 11's folder, with the line given there, the update below takes it as version 2.
Otherwise, the snapshots will do for the whole chapter.
"""


# %%
def balance(act, seed, env=None):
    """Return the return of one episode of CartPole; `act` takes an observation and returns an action."""
    env = env or gymnasium.make("CartPole-v1")
    (obs, _), total, over = env.reset(seed=seed), 0.0, False
    while not over:
        obs, reward, terminated, truncated, _ = env.step(act(obs))
        total, over = total + reward, terminated or truncated
    return total


# %% tags=["demo"]
for policy in (Policy(1), Policy(2)):
    returns = [int(balance(lambda obs, policy=policy: policy.actions([obs])[0], seed)) for seed in range(8)]
    weights = sum(part.size for layer in policy.layers for part in layer)
    print(f"version {policy.version}: {weights} weights, returns {returns}")

start = time.perf_counter()
for _ in range(1000):
    policy.actions([[0.01, 0.02, 0.03, 0.04]])
microseconds_here = 1e6 * (time.perf_counter() - start) / 1000
print(f"one action takes {microseconds_here:.0f} µs here")

# %% [markdown]
r"""
Version 2 balances the pole for all 500 steps of every episode, with 58 numbers.
Version 1 drops it in each, mostly early.
And an action costs microseconds.

## A class becomes a deployment, and gets an address

Here is the smallest service.
`@serve.deployment` turns a class into a **deployment**: a description of the actors that answer requests, called **replicas**.
`.bind(...)` sets the arguments each replica is made with, and returns an **application**; nothing runs yet.
`serve.run` starts it under a name and below a path, its `route_prefix`.
"""


# %%
@serve.deployment(ray_actor_options={"num_cpus": 0.2})
class Power:
    """Answers {"x": …} with a power of x."""

    def __init__(self, exponent):
        self.exponent = exponent  # runs once in every replica: here a network would be loaded

    async def __call__(self, request):
        """Return the answer to one request."""
        body = await request.json()  # the dictionary that the client posted
        return {"power": body["x"] ** self.exponent, "pid": os.getpid()}


# %% tags=["demo"]
quiet = {"log_level": "ERROR"}  # no line of log for every request
serve.run(Power.bind(3), name="power", route_prefix="/power", logging_config=quiet)
reply = requests.post(f"{url}/power", json={"x": 7})
print(reply.status_code, reply.json(), "| this notebook is process", os.getpid())

# %% [markdown]
r"""
`async` and `await` are there because a replica takes several requests at once: while one waits for something, the replica begins the next (chapter 3).
Serve sends a string as it is, and dicts, lists and numbers as JSON; an exception becomes the status 500, with the traceback in the replica's log file (`logs/serve` in Ray's session folder).

**Predict:** for one service with one replica, how many processes has Serve started in all?
"""

# %% tags=["demo"]
given.who_serves()

# %% [markdown]
r"""
![A program sends an HTTP request to the proxy; the proxy chooses a replica and hands it over; the controller starts and watches proxy and replicas, and no request passes through it](../img/ch18_service.svg)

Three, and all are actors.
The **proxy** has the port.
It takes a request, finds the application by the path, draws two of that application's replicas at random, and hands the request to the one with fewer requests under way; a single replica gets them all.
The **controller** starts, watches and replaces the others; no request passes through it.
Proxy and controller reserve no CPU in Ray's ledger, though they use some of the machine's.
"""

# %%
### BEGIN SOLUTION
who_answers = "c"
### END SOLUTION

# %%
quiz("who_answers", who_answers)

# %% [markdown]
r"""
Now write `policy_service`, which returns an application with `replicas` replicas, each of which asks for `cpus` CPUs.
A client posts `{"obs": [0.1, …]}`, and the answer is

```python
{"action": 1, "version": 2, "pid": 4711}
```

where `version` is the model's, and `pid` is the process that computed the action.
The model is an argument, so write the class inside the function or hand the model to `.bind`.
You can also set options later: `Power.options(num_replicas=3).bind(2)`.

The check first hands requests to one replica in this notebook's process; then it deploys yours with two replicas, asks over HTTP, and looks at which processes answered.
"""


# %%
def policy_service(model, replicas, cpus):
    """Return an application that answers {"obs": …} with action, version and pid, from this many replicas.

    `model.actions` takes a list of observations and returns a list of actions.
    """

    ### BEGIN SOLUTION
    @serve.deployment(num_replicas=replicas, ray_actor_options={"num_cpus": cpus})
    class PolicyService:
        def __init__(self, model):
            self.model = model

        async def __call__(self, request):
            body = await request.json()
            action = self.model.actions([body["obs"]])[0]
            return {"action": action, "version": self.model.version, "pid": os.getpid()}

    return PolicyService.bind(model)
    ### END SOLUTION


# %%
check("policy_service", policy_service)

# %% [markdown] tags=["solution"]
r"""
What `.bind` gets is pickled and sent to every replica.
For a network of some gigabytes, bind the *path* of the file instead, and load it in `__init__`.
A version in every answer is worth its few bytes: only it can tell you afterwards which policy acted.
"""

# %% [markdown]
r"""
## CartPole, played through a socket

Let version 1 play: the environment is here, the policy there, and every step is an HTTP request.

**Predict:** an action took microseconds to compute; how long will a step take now?
"""


# %%
def run(app, name):
    """Run an application below the path of its name; where one of that name runs, replace it."""
    serve.run(app, name=name, route_prefix=f"/{name}", logging_config={"log_level": "ERROR"})


def remote_act(obs):
    """Return the service's action for an observation."""
    return session.post(f"{url}/cartpole", json={"obs": obs.tolist()}).json()["action"]


# %% tags=["demo"]
if passed("policy_service"):
    run(policy_service(Policy(1), replicas=2, cpus=0.2), "cartpole")
    session = requests.Session()  # keeps its connection open from one request to the next
    start = time.perf_counter()
    total = balance(remote_act, seed=0)
    step_ms = 1000 * (time.perf_counter() - start) / total
    print(f"return {total:.0f}; {step_ms:.1f} ms for a step,", end=" ")
    print(f"{1000 * step_ms / microseconds_here:.0f} times as long as here")

# %% [markdown]
r"""
The return is the same as in the notebook, because the arithmetic is the same.
But a step takes milliseconds: JSON, a socket, the proxy, an actor call, and all the way back.
That price does not depend on the network's size: for 58 weights it is nearly everything, for a large network almost nothing.
So train where environment and policy share a process (chapter 12), and *serve* when others need the actions: another machine, another language, many users who share one GPU.
"""

# %% [markdown] tags=["notes"]
r"""
Expect to be asked whether this works with gRPC, or without HTTP.
It does: with `serve.start(grpc_options=…)`, or with a handle, `serve.get_app_handle("cartpole")`, by which other Ray programs and deployments call a replica directly, without proxy and JSON.
"""

# %% [markdown]
r"""
## A replica that does not fit waits, and `serve.run` waits with it

A replica is an actor, so it needs room in Ray's ledger of CPUs (chapter 4), four here.
The next cell asks for a replica with all four, although the small ones already hold some.
`serve.run` returns when an application runs, so this call would silently block the notebook; the cell puts it into a thread.
"""


# %% tags=["demo"]
def show_status(name):
    """Print how an application and its deployment are, as `serve.status()` says."""
    application = serve.status().applications[name]
    for deployment in application.deployments.values():
        states = dict(deployment.replica_states)
        print(f"application {application.status.value}, deployment {deployment.status.value}, {states}")
        print(deployment.message)


if passed("policy_service"):
    greedy = policy_service(Stumbling(1), replicas=1, cpus=4)
    waiting = threading.Thread(target=run, args=(greedy, "stumbling"), daemon=True)
    waiting.start()
    given.wait_for_message("stumbling")  # some seconds
    show_status("stumbling")
    print("serve.run has", "not returned" if waiting.is_alive() else "returned")

# %% [markdown]
r"""
There is no error: the application is `DEPLOYING`, the deployment `UPDATING`, the replica `STARTING`.
As far as Serve knows, a new node may join in a minute.
Only the message says that the cluster lacks what the replica requires.
It comes after 30 s by default; this chapter has set `RAY_SERVE_SLOW_STARTUP_WARNING_S` to 3.
In a shell with `RAY_AUTH_MODE=token` (chapter 6), `ray status` lists the demand, and `serve status` shows the same message if the dashboard is running.

Does a replica need a whole CPU?
The number is a booking, not a limit: Ray only counts.
A replica with a tiny policy spends nearly all its time waiting, so a fifth is honest, and five fit where one did.
One that always computes needs all of its CPU, whatever you book.

An `__init__` that raises ends differently: Serve tries it a few times, three for a single replica.
Then the status is `DEPLOY_FAILED`, `message` holds the exception, and `serve.run` raises.

A call under the same name is an update, so a smaller replica replaces the greedy one:
"""

# %% tags=["demo"]
if passed("policy_service"):
    run(policy_service(Stumbling(1), replicas=1, cpus=0.2), "stumbling")  # the same name: an update
    show_status("stumbling")

# %%
### BEGIN SOLUTION
never_running = "b"
### END SOLUTION

# %%
quiz("never_running", never_running)

# %% [markdown]
r"""
## A full service refuses at once

If more requests arrive than the replicas can take, Serve by default refuses none, and each waits for those that came before it.
Two limits change that.
`max_queued_requests`, an option of the deployment, is how many requests may wait in each proxy; it refuses the next one at once.
`request_timeout_s`, in the `http_options` of `serve.start`, ends a request that takes longer; a client sets it for a single request with the header `X-Request-Timeout-Seconds`.

`Narrow` takes one request at a time, for half a second, and lets two more wait.
Eight clients ask at the same moment, and afterwards a ninth that allows 0.2 s.
Which statuses do they see, and after how long?
"""


# %%
import asyncio
from concurrent.futures import ThreadPoolExecutor


@serve.deployment(max_ongoing_requests=1, max_queued_requests=2, ray_actor_options={"num_cpus": 0.2})
class Narrow:
    """Takes one request at a time, half a second for each; two more may wait."""

    async def __call__(self, request):
        """Return the answer to one request."""
        await asyncio.sleep(0.5)
        return "done"


def seen_by(client, headers=None):
    """Return what a client sees: status, seconds, and how the answer begins."""
    start = time.perf_counter()
    reply = requests.post(f"{url}/narrow", headers=headers)
    return reply.status_code, round(time.perf_counter() - start, 1), reply.text[:35]


# %% tags=["demo"]
run(Narrow.bind(), "narrow")
with ThreadPoolExecutor(8) as clients:
    rush = sorted(clients.map(seen_by, range(8)))
rush.append(seen_by(8, {"X-Request-Timeout-Seconds": "0.2"}))
serve.delete("narrow")
display(pandas.DataFrame(rush, columns=["status", "seconds", "answer"]))

# %% [markdown]
r"""
Those that were answered waited for each other; there may be one more or one fewer than three, because Serve counts only roughly when requests arrive together.
The others got a 503 without waiting: they can try again later, or ask elsewhere, and the service spent nothing on them.
The last client got a 408, and Serve cancelled its request.
With `backpressure_config` a deployment can answer 429 in place of 503, and say when to come back, in the header `Retry-After`.
"""

# %% [markdown]
r"""
## A client expects the worst, within limits

`session.post(...)` above assumed that an answer always comes.
Three things go wrong with a service, and each needs its own remedy:

| what happens | what to do |
|---|---|
| no answer in time, or the connection breaks | set a **time limit** for each try, since `requests` has none and may wait forever; then try again, after a pause |
| the service has a problem: a status of 500 or more, or 408 (it ran out of time) or 429 (too many requests) | try again, after a **pause** that gets longer: `pause`, twice `pause`, four times, … |
| *you* have a problem, such as a wrong path: any other status of 400 to 499 | raise at once; the same request will be wrong again |

After `tries` tries, give up and raise.
If the first answer was lost, the service has already done its work.
Computing an action twice harms no one.
Ordering a pizza twice does, so such requests carry a number by which the service recognises them, like chapter 6's `submission_id`.

The check's service breaks down in every one of these ways, and counts your tries.
"""


# %%
def client(url, obs, timeout, tries, pause):
    """Return the service's answer to {"obs": obs}, a dictionary. At most `tries` tries of `timeout` seconds each.

    Before the second try it waits `pause` seconds, and before each further one twice as long as before the last. Raises
    an exception at once for a status of 400 to 499 other than 408 and 429, and otherwise when the last try has failed.
    """
    ### BEGIN SOLUTION
    for number in range(tries):
        last = number == tries - 1
        try:
            reply = requests.post(url, json={"obs": obs}, timeout=timeout)
            may_pass = reply.status_code >= 500 or reply.status_code in (408, 429)
            if last or not may_pass:
                reply.raise_for_status()
                return reply.json()
        except (requests.Timeout, requests.ConnectionError):
            if last:
                raise
        time.sleep(pause * 2**number)
    return None  # only where there are no tries at all
    ### END SOLUTION


# %%
check("client", client)

# %% [markdown] tags=["solution"]
r"""
When a service stumbles, all its clients fail at once; if they all pause equally long, they come back together, and it stumbles again.
So add some randomness to the pause: `pause * 2**number * random.uniform(0.5, 1.5)`.
A polite client obeys the header `Retry-After` of a 429 or 503, which says how long to wait.
In `requests`, `timeout` limits the wait for the first byte, and then between bytes; a service that sends one byte a second may take longer in all.
"""

# %% [markdown]
r"""
## Percentiles say what a mean hides

To measure a service, send it many requests from *another process*: a notebook that draws pictures meanwhile would measure itself.
`generate` starts one, waits for it to end, and returns a row for each request: when it was **due**, **sent** and **done**, its status, and the answer.

`rate=40` makes 40 requests a second due, evenly, whatever the service does: users do not wait for each other.
`users=4` is the number of connections, each with one request at a time.
`stumbling`, the small service just started, stumbles: every 100th request takes half a second, the others some milliseconds, more on a busy machine.

**Predict:** the mean latency, the median (p50: half of the requests were faster), and p99 (all but one in a hundred were).
"""

# %% tags=["demo"]
if passed("policy_service"):
    rows = generate(f"{url}/stumbling", {"obs": [0, 0, 0, 0]}, seconds=budget(10, 3), rate=40, users=4)
    waits = {start: [row["done"] - row[start] for row in rows] for start in ("sent", "due")}
    latencies = pandas.DataFrame(waits)
    table = latencies.describe(percentiles=[0.5, 0.95, 0.99]).loc[["mean", "50%", "95%", "99%", "max"]]
    display((1000 * table).round(1).rename(columns=lambda start: f"ms since {start}"))

# %% tags=["demo"]
if passed("policy_service"):
    figure, axes = plt.subplots(figsize=(8, 3), constrained_layout=True)
    due = np.array([row["due"] for row in rows]) - rows[0]["due"]
    axes.plot(due, 1000 * latencies["due"], "o", color="#d97706", alpha=0.5, label="since it was due")
    axes.plot(due, 1000 * latencies["sent"], ".", color="#2563eb", label="since it was sent")
    axes.set(xlabel="seconds", ylabel="latency (ms)")
    axes.set_title("While one request is stuck, others are not even sent")
    axes.legend();

# %% [markdown]
r"""
The mean describes no request: most are far faster, a few far slower.
And "how slow?" has two answers.
*Since they were sent*, only a few requests were slow: the one that stumbled, and those on the other connections that reached the replica meanwhile.
But while the replica was stuck, all four connections soon waited for it, and requests that became due stayed in the generator.
Their users waited too.
That is **coordinated omission**: a generator that waits politely for the service leaves out exactly the requests that would look bad.
So count from *due*.

Write `load_test`, which summarises a load: `p50`, `p95` and `p99`, in seconds since due, cover the requests answered with status 200.
Count failures separately: a service that refuses everything at once is not a fast one.
The throughput `per_second` is the number of answers (status 200) divided by the time from the first `due` to the last `done` of *all* requests.
The rows come in any order, and at least one request was answered.
"""


# %%
def load_test(rows):
    """Return {"failed", "per_second", "p50", "p95", "p99"} of a load.

    Each row is one request: "due", "sent" and "done" are moments in seconds, "status" is 0 where no answer came.
    """
    ### BEGIN SOLUTION
    answered = [row for row in rows if row["status"] == 200]
    p50, p95, p99 = np.percentile([row["done"] - row["due"] for row in answered], [50, 95, 99])
    seconds = max(row["done"] for row in rows) - min(row["due"] for row in rows)
    failed = len(rows) - len(answered)
    return {"failed": failed, "per_second": len(answered) / seconds, "p50": p50, "p95": p95, "p99": p99}
    ### END SOLUTION


# %%
check("load_test", load_test)

# %% [markdown] tags=["solution"]
r"""
Percentiles cannot be averaged: the p99 of ten minutes is not the mean of ten one-minute p99s.
Keep the latencies, or a histogram of them, and compute once.
And the p99 of 200 requests rests on two: for a p99 that is the same tomorrow, send thousands.
"""

# %%
### BEGIN SOLUTION
which_percentile = "b"
### END SOLUTION

# %%
quiz("which_percentile", which_percentile)

# %% [markdown]
r"""
## A batch costs little more than one request

Real networks are larger than ours.
`given.Large` is the same policy *as if* it were large: a call naps 20 ms, plus 1 ms for every observation in it.
A nap behaves like a model on its own hardware: on two busy cores a second replica would add nothing to real computing; on a cluster, or with a GPU each, it would.
The price of HTTP below is real, and your cores pay it.

With such a model, eight requests one by one take 8 × 21 ms; together, 28 ms.
So let requests wait for each other a moment.
You built such a collector by hand in chapter 3; here `@serve.batch` does it.
It goes above a method that takes a *list* and returns a list, and each caller awaits its own item.

![Requests of several users wait in the replica until there are enough of them, or the waiting time is over; then the model is asked once, and every user gets an answer](../img/ch18_batch.svg)

```python
@serve.batch(max_batch_size=8, batch_wait_timeout_s=0.01)
async def squares(self, numbers):      # called with one number, by many: await self.squares(3)
    return [x * x for x in numbers]    # runs once for all of them
```

The wait ends with `max_batch_size` requests or after `batch_wait_timeout_s` seconds, whichever comes first.

There is a trap: a replica takes only `max_ongoing_requests` requests at once, five by default.
The others wait in the proxy, where no batch can see them.
So give each replica room for several batches, here `max_ongoing_requests=100`: the next batch then gathers while this one computes.

A client again posts `{"obs": [0.1, …]}`, one observation.
`batched_service` answers `{"action": 1, "batch": 8, "pid": 4711}`, where `batch` is the number of observations computed together.
"""


# %%
def batched_service(model, size, wait, replicas):
    """Return an application that computes actions in batches of at most `size`; waits at most `wait` seconds for one.

    Each replica asks for 0.2 CPUs and takes at least 100 requests at once.
    """

    ### BEGIN SOLUTION
    @serve.deployment(num_replicas=replicas, ray_actor_options={"num_cpus": 0.2}, max_ongoing_requests=100)
    class BatchedService:
        def __init__(self, model):
            self.model = model

        @serve.batch(max_batch_size=size, batch_wait_timeout_s=wait)
        async def compute(self, observations):
            actions = self.model.actions(observations)
            return [{"action": action, "batch": len(actions), "pid": os.getpid()} for action in actions]

        async def __call__(self, request):
            body = await request.json()
            return await self.compute(body["obs"])

    return BatchedService.bind(model)
    ### END SOLUTION


# %%
check("batched_service", batched_service)

# %% [markdown] tags=["solution"]
r"""
The method under `@serve.batch` must return as many items as it got, in the same order: that is how Serve knows whose is which.
With `max_ongoing_requests` at 5 and a size of 8, Serve logs a warning, and each batch waits its full time for requests that cannot come.
Batches of one need that room as well.
After you have seen the table below, replace 100 with 3 and measure once more: the same replica gives fewer answers a second, because it is idle while the proxy pauses, up to half a second, before it asks for room again.
Then set it back.
"""

# %%
### BEGIN SOLUTION
batch_alone = "a"
### END SOLUTION

# %%
quiz("batch_alone", batch_alone)

# %% [markdown]
r"""
Now measure batch sizes and replicas, with 32 users who each send the next request as soon as the last is answered, without a `rate`.
With that many users the service is always busy, so you see the most it can do, and what that does to the wait.

**Predict:** from the naps alone, size 1 and one replica give 1 / 0.021 s answers a second.
What gains more: batches of eight, or a second replica?
Do both together reach what the naps allow?
"""


# %%
def measure(size, replicas):
    """Return a row of the table: the service's batches, throughput and percentiles under 32 users."""
    run(batched_service(Large(), size, 0.01, replicas), "large")
    for _ in range(8):
        requests.post(f"{url}/large", json={"obs": [0, 0, 0, 0]})  # a warm-up
    rows = generate(f"{url}/large", {"obs": [0, 0, 0, 0]}, seconds=budget(4, 1), users=32)
    result = load_test(rows)
    batch = np.mean([row["answer"]["batch"] for row in rows if row["status"] == 200])
    ms = {name: 1000 * result[name] for name in ("p50", "p95", "p99")}
    counts = {"failed": result["failed"], "mean batch": batch, "answers/s": result["per_second"]}
    return {"size": size, "replicas": replicas} | counts | ms


# %% tags=["demo"]
if passed("batched_service") and passed("load_test"):
    every_pair = [(size, replicas) for replicas in (1, 2) for size in (1, 2, 4, 8, 16)]
    pairs = budget(every_pair, [(1, 1), (8, 1), (1, 2)])
    measured = pandas.DataFrame([measure(size, replicas) for size, replicas in pairs])
    display(measured.round(1).set_index(["replicas", "size"]))

# %% tags=["demo"]
if passed("batched_service") and passed("load_test"):
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), constrained_layout=True)
    for (replicas, lines), colour in zip(measured.groupby("replicas"), ["#2563eb", "#7c3aed"], strict=True):
        naps = [replicas * size / (0.020 + 0.001 * size) for size in lines["size"]]
        left.plot(lines["size"], naps, ":", marker="_", color=colour)
        left.plot(lines["size"], lines["answers/s"], "o-", color=colour, label=f"replicas: {replicas}")
        right.plot(lines["size"], lines["p50"], "o-", color=colour)
        right.fill_between(lines["size"], lines["p50"], lines["p99"], color=colour, alpha=0.2)
    left.set(xlabel="batch size", ylabel="answers a second", title="Dotted: the naps alone", ylim=(0, None))
    right.set(xlabel="batch size", ylabel="ms, p50 up to p99", title="How long a user waits", ylim=(0, None))
    left.legend();

# %% [markdown]
r"""
At size 1 the naps decide, and unless your cores are busy, a second replica nearly doubles the throughput.
A batch of eight gains more, and costs nothing: the same process, asked less often.
But the larger the batches and the more replicas, the further the points stay below the dotted lines.
Now HTTP, JSON and the proxy are the work, and they need your real cores, which the load generator uses too.
From there on neither larger batches nor more replicas help; on a cluster, every node with a replica has a proxy of its own.
`failed` should be 0 in every row, because the other columns describe answered requests only.
Quick mode measures three of the pairs, so two replicas are a single point in the picture.

With 32 users always waiting, throughput and latency are two sides of one thing: 32 / throughput is about the mean wait (Little's law).
Work it out for a row of your table: p50 should be near it, and mostly a little below, since the first requests of a measurement find a short queue.
Quick mode measures so briefly that the two agree only roughly.
"""

# %% [markdown]
r"""
## The number of replicas follows the load

With `autoscaling_config` in place of a number, Serve counts the requests under way or waiting, and starts enough replicas for `target_ongoing_requests` in each.
The defaults are calm: it looks back over 30 s, and waits 30 s before it adds a replica and ten minutes before it removes one.
Here everything is faster:
"""


# %%
@serve.deployment(
    ray_actor_options={"num_cpus": 0.2},
    health_check_period_s=1,  # the controller asks every second whether a replica lives, instead of every ten
    autoscaling_config={
        "min_replicas": 1,
        "max_replicas": budget(4, 2),
        "target_ongoing_requests": 2,  # per replica, those that wait included
        "upscale_delay_s": 0.5,
        "downscale_delay_s": 1.5,
        "look_back_period_s": 1,
        "metrics_interval_s": 0.5,  # how often the proxy reports; deprecated, but its successors have no effect yet
    },
)
class Elastic:
    """Answers as the large policy does, one request after the other."""

    async def __call__(self, request):
        """Return the answer to one request."""
        return {"action": Large().actions([(await request.json())["obs"]])[0], "pid": os.getpid()}


# %% [markdown]
r"""
Eight users ask until Serve has as many replicas as allowed; then the load ends.
"""

# %% tags=["demo"]
if passed("load_test"):
    run(Elastic.bind(), "elastic")
    with Load(f"{url}/elastic", {"obs": [0, 0, 0, 0]}, seconds=60, users=8) as load:
        followed = given.watch_replicas("elastic", load, most=budget(4, 2))
        print(load_test(load.rows())["failed"], "failed requests")
    figure, axes = plt.subplots(figsize=(7, 2.6), constrained_layout=True)
    axes.step(followed.seconds, followed.replicas, where="post", color="#7c3aed")
    on = followed.seconds[followed.load > 0]
    axes.axvspan(on.min(), on.max(), color="#d97706", alpha=0.2, label="load is on")
    axes.set(xlabel="seconds", ylabel="running replicas", ylim=(0, None))
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set_title("Up under load, down again afterwards")
    axes.legend();

# %% [markdown]
r"""
The number rises some seconds after the load begins, and falls some seconds after it ends.
First the proxy must report, the demand must last for `upscale_delay_s`, and a process must start.
So with the defaults, autoscaling responds to the load of a minute ago; a faster burst must fit into the queue.

It adds replicas, not machines: if no more fit, they wait, as above, until Ray's own autoscaler brings a node (chapter 4).
With `min_replicas: 0`, the first user of the morning waits for a process to start.
"""

# %% [markdown] tags=["notes"]
r"""
Let people change `target_ongoing_requests` to 8 and run both cells again: one replica is now enough, and all users wait longer.
It is a dial between cost and waiting, and the only one of these settings most services ever need to change.
"""

# %% [markdown]
r"""
## A front asks two policies, and answers with one

`cartpole` still serves version 1, on two replicas.
Training has continued, and version 2 is ready: your own network from chapter 11 if you kept it, or else the snapshot.
"""

# %% tags=["demo"]
kept = Path.home() / "ray-course-cartpole"  # where you keep a checkpoint of chapter 11
newest = given.policy_in(kept, version=2) if kept.is_dir() else Policy(2)
shapes = [matrix.shape for matrix, _ in newest.layers]
print("version 2 is", "your own network" if kept.is_dir() else "the snapshot", "with matrices of", shapes)

# %% [markdown]
r"""
To see what version 2 would do before it decides anything, let it run as a *shadow*: a front asks both versions, gives version 1's answer, and says whether version 2 agrees.

An application may hold several deployments, each with replicas and CPUs of its own.
`.bind` takes other bound deployments as arguments, and `__init__` gets a **handle** for each.
`handle.act.remote(obs)` calls a replica's method from inside the cluster, past proxy and JSON, and `await` gets its result.

The front also uses **FastAPI**, which is installed with Serve.
`@serve.ingress(web)` hands requests to methods by their paths, and checks each body against `Question` before your code sees it.
"""


# %%
from fastapi import FastAPI
from pydantic import BaseModel, Field

web = FastAPI()


class Question(BaseModel):
    """What a client posts: four numbers."""

    obs: list[float] = Field(min_length=4, max_length=4)


# %%
@serve.deployment(ray_actor_options={"num_cpus": 0.2})
class Acting:
    """Answers a call with an action; only other deployments call it."""

    def __init__(self, policy):
        self.policy = policy

    def act(self, obs):
        """Return the policy's action."""
        return self.policy.actions([obs])[0]


# %%
@serve.deployment(ray_actor_options={"num_cpus": 0.2})
@serve.ingress(web)
class Front:
    """Answers with the action of one policy, and says whether the other one agrees."""

    def __init__(self, trusted, shadow):
        self.policies = [trusted, shadow]  # two handles

    @web.post("/ask")
    async def ask(self, question: Question):
        """Return the answer to one question; a handle's call returns at once, so both policies compute at the same time."""
        replies = [policy.act.remote(question.obs) for policy in self.policies]
        action, other = [await reply for reply in replies]
        return {"action": action, "agrees": action == other}


# %% tags=["demo"]
if passed("policy_service"):
    trusted, shadow = Acting.options(name="trusted").bind(Policy(1)), Acting.options(name="shadow").bind(newest)
    run(Front.bind(trusted, shadow), "front")
    states = np.random.default_rng(0).normal(0, 0.1, size=(50, 4))
    told = [session.post(f"{url}/front/ask", json={"obs": obs}).json() for obs in states.tolist()]
    print(f"version 2 agrees in {sum(each['agrees'] for each in told)} of {len(told)} states")
    refused = session.post(f"{url}/front/ask", json={"obs": [0, 0, 0]})
    print(refused.status_code, refused.json()["detail"][0]["msg"])
    serve.delete("front")

# %% [markdown]
r"""
Two policies, one answer, and the client doesn't notice.
A front can also send one user in ten to the new version, or let several networks vote.
A body that is not a `Question` got a 422 from FastAPI, which also says what is wrong with it; `/front/docs` would show a page for people who write clients.

## A new version arrives while requests keep coming

Running an application under an existing name is an **update**: Serve replaces the replicas a few at a time, and each old one first finishes what it has begun.
A load generator asks 30 times a second, before, during and after.
Will requests fail?
"""

# %% tags=["demo"]
if passed("policy_service") and passed("load_test"):
    with Load(f"{url}/cartpole", {"obs": [0, 0, 0, 0]}, seconds=120, rate=30) as load:
        time.sleep(1)
        run(policy_service(newest, replicas=2, cpus=0.2), "cartpole")
        time.sleep(0.5)
        load.finish()
        rows = load.rows()
    answers = pandas.DataFrame([row["answer"] for row in rows if row["status"] == 200])
    answers["seconds"] = [row["done"] - rows[0]["due"] for row in rows if row["status"] == 200]
    display(answers.groupby(["version", "pid"]).seconds.agg(answers="count", first="min", last="max").round(2))
    print(f"during the update {load_test(rows)['failed']} of {len(rows)} requests failed")

# %% [markdown]
r"""
The line below the table should say 0: Serve promises that for an update, and a test of this course holds it to the promise.

Serve replaces a fifth of the replicas at a time, at least one: the first old one left at once, the other carried on alone until a new one had started, then left too.
So for a while the service had half its strength.
With a single replica, all requests would have waited in the proxy: stuck, but not failed.
`max_surge_percent=100` in the deployment starts new replicas *before* old ones leave, if there is room for both.

With two replicas the versions hardly mix: compare the latest `last` of version 1 with the earliest `first` of version 2.
With ten, old and new answer side by side for most of the update: a caller may get version 2 and then version 1 again.
That is fine for an agent whose every question stands on its own.
A policy with a memory, such as an LSTM, would get a state that another version wrote: in that case, send the version along, and let each episode end with the version it began with.

The new version is worth it:
"""

# %% tags=["demo"]
if passed("policy_service"):
    longest = budget(500, 100)
    env = gymnasium.make("CartPole-v1", max_episode_steps=longest)
    print(f"the service balances the pole for {balance(remote_act, seed=0, env=env):.0f} of {longest} steps")

# %% [markdown]
r"""
Quick mode stops at 100.
A network of your own that trained for only a few iterations may fall earlier.
New weights every few minutes need not replace processes: see `user_config` and `reconfigure` in Serve's [guide to updates](https://docs.ray.io/en/latest/serve/advanced-guides/inplace-updates.html).
"""

# %%
### BEGIN SOLUTION
both_versions = "b"
### END SOLUTION

# %%
quiz("both_versions", both_versions)

# %% [markdown]
r"""
## A killed replica takes only its own requests with it

Updates are polite; crashes are not.
While eight users wait for answers, the next cell kills a replica of `elastic` with `SIGKILL`, as the system does when memory runs out.
Meanwhile *your* `client` asks again and again.

**Predict:** which of the users' requests fail: none, those the replica had taken, or all until a new replica is there?
And what does your client see?
"""

# %% tags=["demo"]
if passed("client") and passed("load_test"):
    with Load(f"{url}/elastic", {"obs": [0, 0, 0, 0]}, seconds=60, users=8) as load:
        time.sleep(1)
        killed, moment, mine = given.kill_replica("elastic"), time.perf_counter(), []
        while len(mine) < 20 or not given.replaced("elastic", killed):
            start = time.perf_counter()
            client(f"{url}/elastic", [0, 0, 0, 0], timeout=5, tries=8, pause=0.1)
            mine.append(time.perf_counter() - start)
        load.finish()
        rows = load.rows()
    failed = [row for row in rows if row["status"] != 200]
    print(f"{len(failed)} of {len(rows)} requests failed:", {row["status"] for row in failed})
    print(f"your client was answered each of {len(mine)} times, at the latest after {max(mine):.1f} s")

# %% tags=["demo"]
if passed("client") and passed("load_test"):
    figure, axes = plt.subplots(figsize=(8, 2.6), constrained_layout=True)
    for good, style, colour, label in ((True, ".", "#059669", "answered"), (False, "x", "#db2777", "failed")):
        some = [row for row in rows if (row["status"] == 200) == good]
        waits = [row["done"] - row["sent"] for row in some]
        axes.plot([row["sent"] - moment for row in some], waits, style, color=colour, label=label)
    axes.axvline(0, color="#94a3b8", linestyle="--")
    axes.set(xlabel="when it was sent: seconds before and after the kill", ylabel="latency (seconds)")
    axes.set_title("Those in the replica fail, the others wait")
    axes.legend();

# %% [markdown]
r"""
The requests that the dead replica had taken failed with status 500, at most five, its `max_ongoing_requests`.
Serve does not send them again, because it cannot know whether that does harm.
You know, so your client may.
All others waited in the proxy's queue and were answered later.
The controller noticed the death at its next health check and started a new replica.
Other replicas keep answering; here usually only one is left by then, so the whole service stands still until its successor runs.
That is the gap in the picture.

If the proxy dies, the controller starts a new one on the same port, and for a moment connections are refused.
If the controller dies, Ray restarts it, and it reads its state from the GCS, Ray's central store (chapter 6); meanwhile proxy and replicas keep working.

On a cluster Serve outlives the program that started it; `serve.shutdown()` ends all applications, proxy and controller.
Older tutorials use other names for much of this, and Serve silently ignores an old option in `autoscaling_config`: see [Old names](../docs/old_names.md).
"""

# %%
serve.shutdown()
ray.shutdown()

# %% [markdown]
r"""
## What you can do now

- You put a policy behind an address: a class, a deployment, an application.
- You know proxy, replica and controller, and find out with `serve.status()` why a replica does not start.
- Your service refuses what it has no room for, and your client limits its patience, retries what another try can fix, and gives up on the rest.
- You measure from a second process, from the moment a request was due, and report p50, p95, p99, throughput and failures.
- You choose batch size and replicas from a table of your own, and know what it simulates.
- You let replicas follow the load, let one deployment ask others, update without a failed request, and know what a crash costs.

## Traps

- **A replica asks for one whole CPU** unless you say otherwise.
  In this chapter's Ray of four CPUs the fifth waits, and `serve.run` with it, silently.
- **`max_ongoing_requests` is 5**: batches never get larger, and the other requests wait unseen in the proxy.
- **A lone user waits** `batch_wait_timeout_s` for a batch that never fills.
- **`time.sleep` or a long computation in an async method** blocks every other request of that replica.
  Here that was intended.
- **An update stops old replicas before new ones start**, a fifth at a time: with one replica, all users wait.
  See `max_surge_percent`.
- **The same name is an update.** An application without a name is called "default", and the next nameless one replaces it.
- **A queue has no limit** unless you set `max_queued_requests`, and a long one answers users who have left.
- **A client without a time limit** may wait forever; one that retries everything makes a small failure a large one.
- **Latency since sent** forgives the service whatever kept the generator from sending.
- **`host="0.0.0.0"`** opens the service to the network, and Serve asks for no password.
  Put something in front of it that does.
- **On macOS and Windows** the system may ask whether Python may accept connections: 127.0.0.1 is enough for this chapter.

## Read on

- [Chapter 19](ch19_operate.ipynb) looks at metrics, logs and hangs of such programs.
- Ray Serve: [key concepts](https://docs.ray.io/en/latest/serve/key-concepts.html), [dynamic batching](https://docs.ray.io/en/latest/serve/advanced-guides/dyn-req-batch.html), [autoscaling](https://docs.ray.io/en/latest/serve/autoscaling-guide.html), [composition](https://docs.ray.io/en/latest/serve/model_composition.html), [FastAPI](https://docs.ray.io/en/latest/serve/http-guide.html), [production guide](https://docs.ray.io/en/latest/serve/production-guide/index.html).
- Dean and Barroso, [*The Tail at Scale*](https://research.google/pubs/the-tail-at-scale/), 2013: why p99 matters more the larger a system is.
- Crankshaw et al., [*Clipper: A Low-Latency Online Prediction Serving System*](https://arxiv.org/abs/1612.03079), 2017: batching, with numbers.
"""
