# %% [markdown] you_learn_to="serve a policy over HTTP, load-test it, update it under load"
r"""
# Chapter 18 · Serving policies with Ray Serve

A trained policy becomes a service, and it stays up while you change it.

*About 120 minutes · builds on [Chapter 3](ch03_actors.ipynb); [Chapters 6](ch06_cluster.ipynb) and [11](ch11_rllib_ppo.ipynb) help*

**What you will be able to do**

- put a trained policy behind an HTTP address, so that any program can request actions from it;
- find out why a replica doesn't start;
- limit a service's queue, and write a client that survives timeouts, rejected requests, and broken connections;
- load-test a service, and read the percentiles of its latency;
- choose a batch size and a number of replicas from your own measurements;
- autoscale a service, and compose several deployments;
- replace a policy under load without a failed request;
- explain what a large model needs: GPU replicas, streaming, and `ray.serve.llm`.
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

from coursekit import begin, budget, check, explain, hint, measured, passed, predict, progress, puzzle, quiz, review
from coursekit import solution, track
from coursekit.given import ch18_serve as given
from coursekit.given.ch18_serve import Large, Policy, Stumbling
from coursekit.given.load import Load, generate

begin("ch18_serve")

# %%
os.environ["RAY_SERVE_SLOW_STARTUP_WARNING_S"] = "3"  # Serve reports a waiting replica after 3 s instead of 30 s
os.environ["RAY_SERVE_SLOW_STARTUP_WARNING_PERIOD_S"] = "3"
ray.shutdown()  # stops a Ray instance that's already running here: its references and actors are gone
ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)  # what replicas print stays in log files

port = given.free_port()
serve.start(
    http_options={"host": "127.0.0.1", "port": port},  # reachable from this machine only; the default port is 8000
    logging_config={"log_level": "ERROR"},
)
url = f"http://127.0.0.1:{port}"

# %% [markdown] tags=["notes"]
r"""
The run sheet allots two hours, with `client`, autoscaling, large models, and the killed replica as homework.
Have everyone run the two cells above at the same time: Ray and Serve take ten to fifteen seconds to start on a small laptop.
`num_cpus=4` is what Ray may assign, not what the machine has, and how many CPUs a replica needs is part of the chapter.
"""

# %% [markdown]
r"""
## A trained policy is a few NumPy arrays

A service that returns actions needs the policy's weights, but it doesn't need RLlib.
At the end of [Chapter 11](ch11_rllib_ppo.ipynb), a trained CartPole agent was a few arrays, and NumPy computed its actions.
`given.Policy` holds two snapshots of such a training run: version 1 is an early one, and version 2 is a late one.
`policy.actions` takes *a list of observations* and returns a list with one action for each.
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
print(f"one action takes {microseconds_here:.0f} µs in this process")

# %% [markdown]
r"""
With 58 numbers, version 2 balances the pole for all 500 steps of each episode, while version 1 drops it, usually early.

## A class becomes a deployment with an HTTP address

`@serve.deployment` turns a class into a [**deployment**](../docs/glossary.md#deployment): a template for the actors that answer requests, which are called [**replicas**](../docs/glossary.md#replica).
`.bind(...)` sets the arguments for each replica's `__init__` and returns an [**application**](../docs/glossary.md#application), which isn't running yet.
`serve.run` starts the application under a name and at a path, its `route_prefix`.
"""


# %%
@serve.deployment(ray_actor_options={"num_cpus": 0.2})
class Power:
    """Answers {"x": …} with a power of x."""

    def __init__(self, exponent):
        self.exponent = exponent  # runs once per replica: a real service loads its network here

    async def __call__(self, request):
        """Return the answer to one request."""
        body = await request.json()  # the dictionary that the client posted
        return {"power": body["x"] ** self.exponent, "pid": os.getpid()}


# %% tags=["demo"]
quiet = {"log_level": "ERROR"}  # no log line for each request
serve.run(Power.bind(3), name="power", route_prefix="/power", logging_config=quiet)
reply = requests.post(f"{url}/power", json={"x": 7})
print(reply.status_code, reply.json(), "| this notebook is process", os.getpid())

# %% [markdown]
r"""
The method is `async` because a replica handles several requests at the same time: while one awaits something, another can run (Chapter 3).
Serve sends a returned string as plain text, and dicts, lists, and numbers as JSON.
If your method raises an exception, the client gets status 500, and the traceback is in the replica's log file (`logs/serve` in Ray's session folder).

**Predict:** you started one application with one replica.
How many processes has Serve started in total?
"""

# %% tags=["demo"]
predict("serve_processes", ...)  # processes

# %% tags=["demo"]
actors = given.who_serves()
display(actors)
measured("serve_processes", len(actors))

# %% [markdown]
r"""
![A program sends an HTTP request to the proxy, and the proxy forwards it to one of the replicas; the controller starts and monitors the proxy and the replicas, and no request passes through it](../img/ch18_service.svg)

Serve started three processes, and each of them is an actor.

- The [**proxy**](../docs/glossary.md#proxy) listens on the port, finds the application by the request's path, and forwards the request to one of its replicas.
- The **controller** starts and monitors the proxy and the replicas, and replaces those that die.
- The **replica** runs your code.

The proxy tries replicas on its own node first, then those in its availability zone, then all.
From each group, it picks two at random and takes the one with fewer ongoing requests; if neither has room, it goes on to the next group.
"""

# %%
### BEGIN SOLUTION
who_answers = "c"
### END SOLUTION

# %%
quiz("who_answers", who_answers)

# %% [markdown]
r"""
Write `policy_service`, which takes a model, a number of replicas, and the number of CPUs for each replica, and returns an application.
A client posts `{"obs": [0.1, …]}`, and the answer is

```python
{"action": 1, "version": 2, "pid": 4711}
```

where `version` is the model's version and `pid` is the ID of the process that computed the action.
Define the class inside the function, where its methods can use `model`, or pass the model to `.bind`.
You can set options when you bind: `Power.options(num_replicas=3).bind(2)`.

"""


# %%
def policy_service(model, replicas, cpus):
    """Return an application that answers {"obs": …} with action, version, and pid, from this many replicas.

    `model.actions` takes a list of observations and returns a list of actions; each replica requests `cpus` CPUs.
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
Ray pickles what you pass to `.bind` and sends it to every replica.
For a network of several gigabytes, pass the *path* of the file instead, and load the file in `__init__`.
A version in every answer is worth its few bytes, because it tells you later which policy chose the action.
"""

# %% [markdown]
r"""
## What a request over HTTP costs

Now version 1 plays CartPole: the environment runs in this notebook, and every step sends an HTTP request to the policy.

**Predict:** computing an action took microseconds.
How many milliseconds does a step of CartPole take over HTTP?
"""

# %% tags=["demo"]
predict("step_ms", ...)  # milliseconds


# %%
def run(app, name):
    """Run an application at the path of its name; if one with that name is running, replace it."""
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
    print(f"return {total:.0f}; over HTTP, a step takes", end=" ")
    print(f"{1000 * step_ms / microseconds_here:.0f} times as long as an action in this process")
    display(measured("step_ms", step_ms))

# %% [markdown]
r"""
A step takes milliseconds, because the observation passes through JSON, a socket, the proxy, and an actor call, and the action comes back the same way.
This overhead doesn't depend on the size of the network: for 58 weights, it's nearly all of the time, and for a large network, only a small fraction.

So while you train, keep the environment and the policy in one process (Chapter 12).
*Serve* a policy if others need its actions, such as programs in other languages, or many users who share a GPU.
"""

# %% [markdown] tags=["notes"]
r"""
Expect somebody to ask whether this works with gRPC, or without HTTP.
It does: use `serve.start(grpc_options=…)`, or get a handle with `serve.get_app_handle("cartpole")`.
"""

# %% [markdown]
r"""
## A replica that doesn't fit waits, and `serve.run` waits with it

A replica is an actor, so it starts only where its CPUs are free (Chapter 4).
The next cell starts an application whose replica requests all four CPUs, although the small replicas hold some of them.
`serve.run` returns once the application is running, so this call would block the notebook; that's why the cell calls it in a thread.
"""


# %% tags=["demo"]
def show_status(name):
    """Print the status of an application and its deployment, as `serve.status()` reports it."""
    application = serve.status().applications[name]
    for deployment in application.deployments.values():
        states = dict(deployment.replica_states)
        print(f"application {application.status.value}, deployment {deployment.status.value}, {states}")
        print(deployment.message)


if passed("policy_service"):
    greedy = policy_service(Stumbling(1), replicas=1, cpus=4)
    waiting = threading.Thread(target=run, args=(greedy, "stumbling"), daemon=True)
    waiting.start()
    given.wait_for_message("stumbling")  # takes a few seconds
    show_status("stumbling")
    print("serve.run has", "not returned" if waiting.is_alive() else "returned")

# %% [markdown]
r"""
There's no error: the application is `DEPLOYING`, the deployment is `UPDATING`, and the replica is `STARTING`.
Serve keeps waiting because a new node could join at any time.
Only the message says that the cluster doesn't have the resources that the replica requests.
By default, it appears after 30 s.

Ray only counts CPUs when it places a replica; the number doesn't limit what the replica uses (Chapter 4).
A replica with a tiny policy spends nearly all of its time waiting, so 0.2 is realistic; one that computes all the time needs a whole CPU, whatever number you give.

If `__init__` raises an exception, Serve makes a few attempts (three for a single replica).
Then the status is `DEPLOY_FAILED`, and `serve.run` raises an error.

Calling `serve.run` again with the same name updates the application, so a smaller replica can replace the one that's waiting:
"""

# %% tags=["demo"]
if passed("policy_service"):
    run(policy_service(Stumbling(1), replicas=1, cpus=0.2), "stumbling")  # the same name, so it's an update
    show_status("stumbling")

# %%
### BEGIN SOLUTION
never_running = "b"
### END SOLUTION

# %%
quiz("never_running", never_running)

# %% [markdown]
r"""
## Load shedding: an overloaded service rejects requests

If more requests arrive than the replicas can handle, Serve accepts them all by default, and its queue grows without limit.
Two settings change that.

- `max_queued_requests`, an option of the deployment, limits how many requests may wait in each proxy.
  The proxy rejects further requests immediately, which is called [*load shedding*](../docs/glossary.md#load-shedding).
- `request_timeout_s`, in the `http_options` of `serve.start`, cancels requests that take longer.
  A client can set this limit for a single request with the `X-Request-Timeout-Seconds` header.

`Narrow` handles one request at a time, for half a second, and lets two more wait.
Eight clients each send a request at the same moment; afterward, a ninth client sends one with a limit of 0.2 s.
Which statuses do they get, and after how many seconds?
"""


# %%
import asyncio
from concurrent.futures import ThreadPoolExecutor


@serve.deployment(max_ongoing_requests=1, max_queued_requests=2, ray_actor_options={"num_cpus": 0.2})
class Narrow:
    """Handles one request at a time, for half a second each; two more may wait."""

    async def __call__(self, request):
        """Return the answer to one request."""
        await asyncio.sleep(0.5)
        return "done"


def seen_by(client, headers=None):
    """Return what a client gets: the status, the seconds it took, and the beginning of the answer."""
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
The requests with status 200 were handled one after the other, and in between, the replica was idle until the proxy asked again whether it had room.
There may be one more or one fewer than three, because Serve's count of waiting requests is only approximate when many arrive at once.
The others got a 503 without waiting, so they can try again later or elsewhere.
The last client got a 408, and Serve canceled its request.
With `backpressure_config`, a deployment can answer with 429 instead of 503, and its `Retry-After` header can tell clients how long to wait.
"""

# %% [markdown]
r"""
## A client limits its waiting, and retries with backoff

Three things can go wrong with a request, and each one needs a different response:

| what happens | what to do |
|---|---|
| no answer in time, or the connection breaks before or in the middle of the answer | set a **time limit** for each attempt, because `requests` has none by default and may wait forever; then retry, after a pause |
| the service has a problem: a status of 500 or more, 408 (timeout), or 429 (too many requests) | retry after a **pause** that doubles each time ([*exponential backoff*](../docs/glossary.md#exponential-backoff)): `pause`, twice `pause`, four times `pause`, and so on |
| *your request* has a problem, such as a wrong path: any other status from 400 to 499 | raise an exception immediately, because the same request would fail again |

On a timeout, a load balancer in front of a service usually answers with 504 instead of 408.

If only the answer was lost, a retry makes the service do its work twice.
That's harmless for an action, but a pizza order needs an ID by which the service recognizes a repeated request, like the `submission_id` in Chapter 6.

Write `client`, which posts an observation and returns the service's answer, with at most `tries` attempts.
"""


# %%
def client(url, obs, timeout, tries, pause):
    """Return the service's answer to {"obs": obs}, a dictionary. Make at most `tries` attempts, each with the time limit `timeout`.

    Wait `pause` seconds before the second attempt, and before each further one twice as long as before the last. Raise an
    exception immediately for a status of 400 to 499 other than 408 and 429, and otherwise when the last attempt has failed.
    """
    ### BEGIN SOLUTION
    for number in range(tries):
        last = number == tries - 1
        try:
            reply = requests.post(url, json={"obs": obs}, timeout=timeout)
        except requests.RequestException:  # no answer, or only a part of one
            if last:
                raise
        else:
            if last or not (reply.status_code >= 500 or reply.status_code in (408, 429)):
                reply.raise_for_status()
                return reply.json()
        time.sleep(pause * 2**number)
    return None  # only if there are no attempts at all
    ### END SOLUTION


# %%
check("client", client)

# %% [markdown] tags=["solution"]
r"""
`requests` raises a `ConnectionError` if the connection breaks before the answer begins, but a `ChunkedEncodingError` if it breaks in the middle of the answer.
Both are subclasses of `RequestException`, and so is `Timeout`.

When a service fails, it fails for all of its clients at the same moment.
If they all pause for the same time, they all return at the same moment, and the service fails again.
So add some randomness, called *jitter*: `pause * 2**number * random.uniform(0.5, 1.5)`.
A considerate client also obeys the `Retry-After` header of a 429 or a 503.

In `requests`, `timeout` limits the time to connect and each wait for more bytes.
It doesn't limit the whole attempt: a service that sends one byte per second can take longer in total.
"""

# %% [markdown]
r"""
## Percentiles show what the mean hides

To measure a service, send requests from *another process*, because a busy notebook would delay the requests that it measures.
`generate` starts such a process and returns a row for each request: when it was **due**, **sent**, and **done**, its status, and its answer.

With `rate=40`, 40 requests per second are due at even intervals, no matter how slowly the service answers.
That's an [*open-loop load*](../docs/glossary.md#open-loop-load), like that of real users, who don't wait for each other.
`users=4` is the number of connections, each of which carries one request at a time.

The `stumbling` application from above has one replica.
Every 100th request stalls that replica for half a second; the others take a few milliseconds.

**Predict:** what percentage of the requests get their answer more than 0.1 s after they were *due*?
"""

# %% tags=["demo"]
predict("slow_percent", ...)  # percent

# %% tags=["demo"]
if passed("policy_service"):
    rows = generate(f"{url}/stumbling", {"obs": [0, 0, 0, 0]}, seconds=budget(10, 3), rate=40, users=4)
    waits = {start: [row["done"] - row[start] for row in rows] for start in ("sent", "due")}
    latencies = pandas.DataFrame(waits)
    table = latencies.describe(percentiles=[0.5, 0.95, 0.99]).loc[["mean", "50%", "95%", "99%", "max"]]
    display((1000 * table).round(1).rename(columns=lambda start: f"ms since {start}"))
    print(f"slower than 0.1 s since they were sent: {100 * (latencies['sent'] > 0.1).mean():.0f}%")
    display(measured("slow_percent", 100 * (latencies["due"] > 0.1).mean()))

# %% [markdown]
r"""
Only one request in a hundred stalls the replica, but at least 16 in a hundred are slow, counted from when they were due.
During the first 0.4 s of a stall, 40 × 0.4 = 16 requests become due and wait longer than 0.1 s, and the next ones wait until the backlog is cleared.
(Quick mode sends 120 requests with a single stall, so your percentage may be lower.)
The mean describes none of the requests: most are far faster, and some are far slower.
[Percentiles](../docs/glossary.md#percentile) say more: half of the answers came within p50, the median, and 99% came within p99.
"""

# %% tags=["demo"]
if passed("policy_service"):
    figure, axes = plt.subplots(figsize=(8, 3), constrained_layout=True)
    due = np.array([row["due"] for row in rows]) - rows[0]["due"]
    axes.plot(due, 1000 * latencies["due"], "o", color="#d97706", alpha=0.5, label="since it was due")
    axes.plot(due, 1000 * latencies["sent"], ".", color="#2563eb", label="since it was sent")
    axes.set(xlabel="when the request was due (seconds)", ylabel="latency (ms)")
    axes.set_title("During a stall, most of the requests that are due aren't even sent")
    axes.legend()

# %% [markdown]
r"""
During a stall, all four connections are waiting, so the next requests stay in the generator, and the users behind them wait, too.
Latency since a request was *sent* leaves out exactly this wait, a mistake called [**coordinated omission**](../docs/glossary.md#coordinated-omission).
So measure latency from the moment a request was *due*.

Write `load_test`, which takes the rows of a load and returns a dict:

- `p50`, `p95`, and `p99` are percentiles of the latency, in seconds since the request was due, over the requests with status 200;
- `failed` is the number of all other requests, because a service that rejects everything quickly isn't fast;
- `per_second`, the throughput, is the number of answers with status 200, divided by the time from the first `due` to the last `done` of *all* requests.

The rows can be in any order, and at least one of them has status 200.
"""


# %%
def load_test(rows):
    """Return {"failed", "per_second", "p50", "p95", "p99"} of a load.

    Each row is one request: "due", "sent", and "done" are moments in seconds; "status" is 0 if no answer came.
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
You can't average percentiles: the p99 of ten minutes isn't the mean of ten one-minute p99s.
Keep the latencies, or a histogram of them, and compute the percentile once.
Also, only two of 200 requests are slower than their p99, so send thousands if you want a p99 that you can reproduce tomorrow.
"""

# %%
### BEGIN SOLUTION
which_percentile = "b"
### END SOLUTION

# %%
quiz("which_percentile", which_percentile)

# %% [markdown]
r"""
## Dynamic batching: a batch costs little more than one request

`given.Large` is the same policy *as if* it were large: each call sleeps 20 ms, plus 1 ms for every observation in it.
The sleep stands for a model with its own hardware, such as a GPU for each replica; if it computed on your two cores, a second replica would add little.
"""

# %% tags=["demo"]
large, one = Large(), [0.01, 0.02, 0.03, 0.04]
start = time.perf_counter()
for _ in range(8):
    large.actions([one])
middle = time.perf_counter()
large.actions([one] * 8)
print(f"one after the other: {1000 * (middle - start):.0f} ms;", end=" ")
print(f"in a single batch: {1000 * (time.perf_counter() - middle):.0f} ms")

# %% [markdown]
r"""
So it pays to let requests wait a moment for each other, which is called [*dynamic batching*](../docs/glossary.md#dynamic-batching).
In Chapter 3, you built a batching actor by hand; here, you put `@serve.batch` on a method that takes a *list* and returns a list, and each caller awaits the result for a single item.

![Requests of several users wait in the replica until the batch is full or the time limit is reached; then the model is called once, and each user gets an answer](../img/ch18_batch.svg)

```python
@serve.batch(max_batch_size=8, batch_wait_timeout_s=0.01)
async def squares(self, numbers):      # many callers, each with one number: await self.squares(3)
    return [x * x for x in numbers]    # runs once for all of them
```

A batch is complete when it has `max_batch_size` requests, or `batch_wait_timeout_s` seconds after its first request, whichever comes first.

There's a trap: by default, a replica accepts only five requests at a time (`max_ongoing_requests`).
The others wait in the proxy, where they can't join a batch.
So let each replica accept at least 100 requests; then the next batch can fill up while the model computes the current one.

Write `batched_service`, which takes a model, the maximum batch size, the longest wait for a batch, and the number of replicas, and returns an application.
As before, a client posts a single observation.
The answer is `{"action": 1, "batch": 8, "pid": 4711}`, where `batch` is the number of observations that were computed together.
"""


# %%
def batched_service(model, size, wait, replicas):
    """Return an application that computes actions in batches of at most `size`; a batch waits at most `wait` seconds.

    Each replica requests 0.2 CPUs and accepts at least 100 requests at a time.
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
The method under `@serve.batch` must return as many items as it got, in the same order, because that's how Serve matches results to callers.
With `max_ongoing_requests=5` and a batch size of 8, Serve logs a warning, and each batch waits until the time limit for requests that can't arrive.
Room for many requests helps even with batches of one.
To see this, replace 100 with 3 and run the measurement below once more: a replica answers fewer requests per second, because it's idle while the proxy waits up to half a second to ask again whether the replica has room.
Then change it back.
"""

# %%
### BEGIN SOLUTION
batch_alone = "a"
### END SOLUTION

# %%
quiz("batch_alone", batch_alone)

# %% [markdown]
r"""
Now measure several batch sizes and numbers of replicas, without a `rate`: each of 32 users sends the next request as soon as the last one is answered, which is called a [*closed-loop load*](../docs/glossary.md#closed-loop-load).
That keeps the service busy, so you see its highest throughput and how long users wait under full load.

**Predict:** which change to one replica without batching adds more answers per second: batches of eight, or a second replica?
"""

# %% tags=["demo"]
predict("adds_more", ..., ["batches of eight", "a second replica"])


# %%
def measure(size, replicas):
    """Return a row of the table: the service's batches, throughput, and percentiles under 32 users."""
    run(batched_service(Large(), size, 0.01, replicas), "large")
    for _ in range(8):
        requests.post(f"{url}/large", json={"obs": [0, 0, 0, 0]})  # a warm-up
    rows = generate(f"{url}/large", {"obs": [0, 0, 0, 0]}, seconds=budget(4, 1), users=32)
    result = load_test(rows)
    batch = np.mean([row["answer"]["batch"] for row in rows if row["status"] == 200])
    ms = {name: 1000 * result[name] for name in ("p50", "p95", "p99")}
    counts = {"failed": result["failed"], "mean batch": batch, "answers/s": result["per_second"]}
    return {"size": size, "replicas": replicas} | counts | ms


# %% [markdown]
r"""
In full mode, the next cell takes about a minute.
"""

# %% tags=["demo"]
if passed("batched_service") and passed("load_test"):
    every_pair = [(size, replicas) for replicas in (1, 2) for size in (1, 2, 4, 8, 16)]
    pairs = track(budget(every_pair, [(1, 1), (8, 1), (1, 2)]), "measuring a batch size")
    results = pandas.DataFrame([measure(size, replicas) for size, replicas in pairs])
    display(results.round(1).set_index(["replicas", "size"]))
    speed = results.set_index(["size", "replicas"])["answers/s"]
    faster = "batches of eight" if speed[8, 1] > speed[1, 2] else "a second replica"
    display(measured("adds_more", faster))

# %% tags=["demo"]
if passed("batched_service") and passed("load_test"):
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), constrained_layout=True)
    for (replicas, lines), color in zip(results.groupby("replicas"), ["#2563eb", "#7c3aed"], strict=True):
        limit = [replicas * size / (0.020 + 0.001 * size) for size in lines["size"]]
        left.plot(lines["size"], limit, ":", marker="_", color=color)
        left.plot(lines["size"], lines["answers/s"], "o-", color=color, label=f"replicas: {replicas}")
        right.plot(lines["size"], lines["p50"], "o-", color=color)
        right.fill_between(lines["size"], lines["p50"], lines["p99"], color=color, alpha=0.2)
    left.set(xlabel="batch size", ylabel="answers per second", title="Dotted: the limit set by the sleeps")
    right.set(xlabel="batch size", ylabel="latency (ms)", title="How long users wait: p50 to p99")
    left.set_ylim(0, None)
    right.set_ylim(0, None)
    left.legend()

# %% [markdown]
r"""
With batches of one, the sleeps set the limit, and unless your cores are busy, a second replica nearly doubles the throughput.
Batches of eight usually add more, without another process.
But the larger the batches and the more replicas, the further the points are below the dotted lines.
There, HTTP, JSON, and the proxy are most of the work, and they compete with the load generator for your cores.
Check that `failed` is 0 in every row, because the other columns describe only the requests that were answered.

Under a closed-loop load, throughput and latency are tied together: the mean wait is about 32 / throughput ([Little's law](../docs/glossary.md#littles-law)).
Compute it for a row of your table and compare it with p50; in quick mode, the two agree only roughly.
"""

# %% [markdown]
r"""
## Large models: GPU replicas, streaming, and `ray.serve.llm`

`Large` only sleeps; a model that really is large needs more.

**A GPU for each replica.**
With `ray_actor_options={"num_gpus": 1}`, Ray assigns a GPU to each replica; with 0.5, two replicas share a GPU, whose memory must be large enough for both (Chapter 4).
Load the network onto the GPU in `__init__`.

**Streaming.**
A language model computes its answer token by token, and users want to read the beginning while the rest is still being computed.
If your method returns a `StreamingResponse`, Serve sends each part as soon as the generator yields it:
"""


# %%
from starlette.responses import StreamingResponse


@serve.deployment(ray_actor_options={"num_cpus": 0.2})
class Words:
    """Streams a sentence word by word, as a language model streams its tokens."""

    async def words(self):
        """Yield a word every 0.2 s."""
        for word in ["this", "answer", "arrives", "word", "by", "word"]:
            await asyncio.sleep(0.2)
            yield f"{word} "

    async def __call__(self, request):
        """Return the answer, which Serve sends while it's still being generated."""
        return StreamingResponse(self.words(), media_type="text/plain")


# %% tags=["demo"]
run(Words.bind(), "words")
start = time.perf_counter()
with requests.post(f"{url}/words", stream=True) as reply:
    parts = [(round(time.perf_counter() - start, 1), part.decode()) for part in reply.iter_content(None)]
serve.delete("words")
display(pandas.DataFrame(parts, columns=["seconds", "part"]))

# %% [markdown]
r"""
The first word arrived long before the last one, so such a service has two latencies: the *time to first token* and the time for the whole answer.

**`ray.serve.llm`.**
For language models, you don't write the deployment yourself:

```python
from ray.serve.llm import LLMConfig, build_openai_app

config = LLMConfig(
    model_loading_config={"model_id": "qwen", "model_source": "Qwen/Qwen2.5-0.5B-Instruct"},
    deployment_config={"num_replicas": 2},  # options of the deployment
    engine_kwargs={"max_model_len": 4096},  # options of vLLM, the engine that runs the model
)
serve.run(build_openai_app({"llm_configs": [config]}))
```

This needs `pip install "ray[llm]"` and GPUs, so the course doesn't run it.
The application has the endpoints of OpenAI's API, such as `/v1/chat/completions`, and it streams if a request contains `"stream": true`.
It doesn't need `@serve.batch`, because in vLLM, a new request can join the running batch after any token (*continuous batching*).

## Autoscaling adds replicas under load

With `autoscaling_config`, Serve counts the requests that are running or waiting, and starts enough replicas that each one has about `target_ongoing_requests` of them.
The defaults react slowly: Serve averages over the last 30 s, waits 30 s before it adds a replica, and waits ten minutes before it removes one.
Here, everything is faster:
"""


# %%
@serve.deployment(
    ray_actor_options={"num_cpus": 0.2},
    health_check_period_s=1,  # the controller checks each replica every second; the default is every ten seconds
    autoscaling_config={
        "min_replicas": 1,
        "max_replicas": budget(4, 2),
        "target_ongoing_requests": 2,  # per replica, including requests that wait
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
Eight users send requests until there are `max_replicas` replicas, and then the load stops.
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
    axes.axvspan(on.min(), on.max(), color="#d97706", alpha=0.2, label="under load")
    axes.set(xlabel="seconds", ylabel="running replicas", ylim=(0, followed.replicas.max() + 1))
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set_title("Serve adds replicas under load and removes them afterward")
    axes.legend()

# %% [markdown]
r"""
A new replica takes a few seconds: the proxy has to report the demand, the demand has to last for `upscale_delay_s`, and a process has to start.
With the defaults, that takes at least half a minute, so a shorter burst must wait in the queue.

Serve adds replicas, not machines.
A replica that doesn't fit waits, as above, until Ray's autoscaler adds a node (Chapter 4).
"""

# %% [markdown] tags=["notes"]
r"""
Let people change `target_ongoing_requests` to 8 and run both cells again: now a single replica is enough, and all users wait longer.
This setting trades cost against latency, and it's the first one to tune.
"""

# %% [markdown]
r"""
## Model composition: an ingress deployment calls two policies

`cartpole` still serves version 1.
Training has continued, and version 2 is ready: **your own network**, if you saved it in the folder that Chapter 11 suggests, or else the snapshot.
"""

# %% tags=["demo"]
kept = Path.home() / "ray-course-cartpole"  # where you can keep a checkpoint of Chapter 11
newest = given.policy_in(kept, version=2) if kept.is_dir() else Policy(2)
shapes = [matrix.shape for matrix, _ in newest.layers]
print("version 2 is", "your own network" if kept.is_dir() else "the snapshot", "with matrices of", shapes)

# %% [markdown]
r"""
To see what version 2 would do before you rely on it, run it as a [*shadow deployment*](../docs/glossary.md#shadow-deployment): every request goes to both versions, but the client gets version 1's action.

An application can consist of several deployments.
The one that receives the requests is the [*ingress deployment*](../docs/glossary.md#ingress-deployment).
If you pass other bound deployments to its `.bind`, its `__init__` gets a [**handle**](../docs/glossary.md#deployment-handle) for each of them.
`handle.act.remote(obs)` calls a replica's method without the proxy and JSON, and `await` returns the result.

The ingress below also uses **FastAPI**, which is installed with Serve.
`@serve.ingress(web)` routes requests to methods by their path, and FastAPI checks each body against `Question` before your code runs.
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
class Ingress:
    """Answers with the action of one policy, and says whether the other one agrees."""

    def __init__(self, trusted, shadow):
        self.policies = [trusted, shadow]  # two handles

    @web.post("/ask")
    async def ask(self, question: Question):
        """Return the answer to one question; `remote` returns immediately, so both policies compute at the same time."""
        replies = [policy.act.remote(question.obs) for policy in self.policies]
        action, other = [await reply for reply in replies]
        return {"action": action, "agrees": action == other}


# %% tags=["demo"]
if passed("policy_service"):
    trusted, shadow = Acting.options(name="trusted").bind(Policy(1)), Acting.options(name="shadow").bind(newest)
    run(Ingress.bind(trusted, shadow), "both")
    states = np.random.default_rng(0).normal(0, 0.1, size=(50, 4))
    told = [session.post(f"{url}/both/ask", json={"obs": obs}).json() for obs in states.tolist()]
    print(f"version 2 agrees in {sum(each['agrees'] for each in told)} of {len(told)} states")
    rejected = session.post(f"{url}/both/ask", json={"obs": [0, 0, 0]})
    print(rejected.status_code, rejected.json()["detail"][0]["msg"])
    serve.delete("both")

# %% [markdown]
r"""
An ingress can also send one user in ten to the new version.
The last body had only three numbers, so FastAPI answered with 422 and said what was wrong.

## A rolling update replaces a policy under load

If you run an application under an existing name, Serve performs a [**rolling update**](../docs/glossary.md#rolling-update): it replaces a few replicas at a time.
Before an old replica stops, it gets up to 20 s (`graceful_shutdown_timeout_s`) to finish the requests that it has accepted.
A load generator sends 30 requests per second before, during, and after the update.
Do any of them fail?
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
The line below the table should say that 0 requests failed.

Serve replaces a fifth of the replicas at a time, but at least one.
Here, it stopped the first old replica immediately, and the other one handled all requests until a new replica had started.
So for a while, the service had half of its capacity, and with a single replica, it would have had none.
With `max_surge_percent=100`, Serve starts the new replicas *before* it stops the old ones, if there's room for both.

With two replicas, the versions hardly overlap: compare the latest `last` of version 1 with the earliest `first` of version 2.
With ten replicas, both versions answer during most of the update, so a client can get version 2 and then version 1 again.
A policy with memory, such as an LSTM, would then get a state from the other version, so let each episode end with the version it started with.

The new version plays better:
"""

# %% tags=["demo"]
if passed("policy_service"):
    longest = budget(500, 100)
    env = gymnasium.make("CartPole-v1", max_episode_steps=longest)
    print(f"the service balances the pole for {balance(remote_act, seed=0, env=env):.0f} of {longest} steps")

# %% [markdown]
r"""
If new weights arrive every few minutes, you can pass them to running replicas: see `user_config` in Serve's [guide to updates](https://docs.ray.io/en/latest/serve/advanced-guides/inplace-updates.html).
"""

# %%
### BEGIN SOLUTION
both_versions = "b"
### END SOLUTION

# %%
quiz("both_versions", both_versions)

# %% [markdown]
r"""
## What fails when a replica is killed

In an update, replicas stop gracefully; in a crash, they don't.
While eight users wait for answers, the next cell kills a replica of `elastic` with `SIGKILL`, as the operating system does when memory runs out.
Meanwhile, *your* `client` sends requests, too.

**Predict:** which of the users' requests fail?
"""

# %% tags=["demo"]
predict("failed_requests", ..., ["none", "those the replica had accepted", "all until a new replica runs"])

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
    print(f"your client got {len(mine)} answers, and the slowest took {max(mine):.1f} s")

# %% tags=["demo"]
if passed("client") and passed("load_test"):
    figure, axes = plt.subplots(figsize=(8, 2.6), constrained_layout=True)
    for good, style, color, label in ((True, ".", "#059669", "answered"), (False, "x", "#db2777", "failed")):
        some = [row for row in rows if (row["status"] == 200) == good]
        waits = [row["done"] - row["sent"] for row in some]
        axes.plot([row["sent"] - moment for row in some], waits, style, color=color, label=label)
    axes.axvline(0, color="#94a3b8", linestyle="--")
    axes.set(xlabel="when it was sent (seconds since the kill)", ylabel="latency (seconds)")
    axes.set_title("Requests inside the killed replica fail; the others wait")
    axes.legend()
    accepted = "those the replica had accepted" if len(failed) <= 5 else "all until a new replica runs"
    display(measured("failed_requests", accepted if failed else "none"))

# %% [markdown]
r"""
The requests that the killed replica had accepted failed with status 500, and there were at most five of them, its `max_ongoing_requests`.
Serve doesn't retry them, because it can't know whether a second execution would do harm.
You do know, so your client can retry.

All other requests waited in the proxy's queue.
The controller noticed the death at its next health check and started a new replica.
Usually, `elastic` was down to a single replica before the kill, so the service stood still until the new one was running, which is the gap in the plot.

If the proxy dies, the controller starts a new one on the same port, and until then, connections are refused.
If the controller dies, Ray restarts it, and it reads its state from the [GCS](../docs/glossary.md#gcs); meanwhile, the proxy and the replicas keep working.

On a cluster, Serve keeps running when the program that started it exits, until `serve.shutdown()`.
Older tutorials use other names for many of these settings, and Serve silently ignores an old option in `autoscaling_config`: see [Old names](../docs/old_names.md).
"""

# %%
serve.shutdown()
ray.shutdown()

# %% [markdown]
r"""
## What you can do now

- You can turn a policy into a service, and find out with `serve.status()` why a replica doesn't start.
- Your service rejects what it can't handle, and your client retries with backoff and gives up when a retry can't help.
- You measure latency from the moment a request is due, and report percentiles, throughput, and failures.
- You choose a batch size and a number of replicas from your own measurements.
- You can autoscale, compose, and update services, and you know what a crash costs and what a large model needs.

## Traps

- **A replica requests one whole CPU** unless you say otherwise.
  With four CPUs, the fifth such replica waits, and `serve.run` waits with it, without an error.
- **`time.sleep` or a long computation in an async method** blocks all other requests of that replica.
  In this chapter, that was intended.
- **The same name means an update.**
  An application without a name is called "default", and the next nameless one replaces it.
- **A client that retries everything** makes an overload worse.
- **`host="0.0.0.0"`** opens the service to the network, and Serve doesn't ask for a password.
  Put something in front of it that does.

## Read on

- [Chapter 19](ch19_operate.ipynb) is about metrics, logs, and hangs of such programs.
- Ray Serve: [key concepts](https://docs.ray.io/en/latest/serve/key-concepts.html), [dynamic batching](https://docs.ray.io/en/latest/serve/advanced-guides/dyn-req-batch.html), [autoscaling](https://docs.ray.io/en/latest/serve/autoscaling-guide.html), [composition](https://docs.ray.io/en/latest/serve/model_composition.html), [FastAPI and streaming](https://docs.ray.io/en/latest/serve/http-guide.html), [language models](https://docs.ray.io/en/latest/serve/llm/index.html), [production guide](https://docs.ray.io/en/latest/serve/production-guide/index.html).
- Dean and Barroso, [*The Tail at Scale*](https://research.google/pubs/the-tail-at-scale/), 2013: why p99 matters more the larger a system is.
- Crankshaw et al., [*Clipper: A Low-Latency Online Prediction Serving System*](https://arxiv.org/abs/1612.03079), 2017: batching, with measurements.
"""
