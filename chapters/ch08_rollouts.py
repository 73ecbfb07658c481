# %% [markdown] you_learn_to="collect with many samplers, in step and out of it; GAE"
r"""
# Chapter 8 · Rollouts

Many samplers collect experience at once, and none has to wait for the slowest.

*About 105 minutes · builds on [Chapter 2](ch02_objects.ipynb), [Chapter 3](ch03_actors.ipynb) and [Chapter 7](ch07_environments.ipynb)*

**What you will be able to do**

- name the four parts of distributed reinforcement learning, and write the one that plays as an actor;
- compute advantages from a fragment of experience that begins and ends mid-episode;
- collect from many samplers, in step or as fragments come, and say what each way costs;
- fit Amdahl's law to your own measurements, and read from the residuals whether to believe it;
- choose a sampler's resources and the length of a fragment from measurements, and say which messages pass through your notebook.
"""

# %%
import time
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pandas
import ray

from coursekit import begin, budget, check, compare_times, hint, passed, progress, quiz, recorded, solution, timeline
from coursekit.given.ch08_rollouts import carts, leans
from coursekit import actors, stores

begin("ch08_rollouts")

# %%
ray.shutdown()  # ends a Ray that already runs here: its references and actors are gone
ray.init(num_cpus=4, include_dashboard=False);

# %% [markdown] tags=["notes"]
r"""
The run sheet plans a hundred and five minutes, with `collect_async` and `fragment_length` as homework.
In most rooms `gae` takes longer than its minutes say: give it a whiteboard, and let pairs compute its check's hand-made cases first.
Run the two cells above before you speak.
"""

# %% [markdown]
r"""
## Distributed reinforcement learning has four parts

Chapter 7 played in one process.
A program that learns from many processes has four parts, whatever the algorithm:

![Samplers, each with environments and a copy of the agent, send fragments of experience to a buffer; the learner takes batches from it and puts new weights into the object store, from where every sampler reads them](../img/ch08_parts.svg)

- The **environment** takes actions and returns observations and rewards.
- The **agent** chooses the actions.
  It is a policy with weights, and every player has a copy.
- The **buffer** keeps experience for the learner.
  A *rollout buffer* is emptied after every update, since its experience came from the policy that has just changed.
  A *replay buffer* keeps it, and the learner uses the same step many times (chapter 9).
- The **learner** computes new weights.

By the end of this chapter all live in actors, environment and agent in the same one, and your notebook only connects them.
An actor that holds environments and an agent is a **sampler** here, an *EnvRunner* in RLlib, and a *rollout worker* in older texts ([Old names](../docs/old_names.md)).
"""

# %% [markdown]
r"""
## Environment and agent belong in one process

To see why, take them apart: two CartPoles in an actor of their own, the agent in your notebook.
Every step is then a remote call.
Our agent is a line of NumPy: it pushes to the side the pole will lean to.
`carts(2)` is a `SyncVectorEnv` of two CartPoles.

**Predict:** a step of both carts takes some 30 µs in a loop.
How long does it take as a remote call?
"""

# %%
weights = {"version": 0, "pole": np.array([0, 0, 1, 0.5])}  # angle + 0.5 * angular velocity


@ray.remote
class Carts:
    """Two CartPoles in a process of their own."""

    def __init__(self):
        self.envs = carts(2)
        self.envs.reset(seed=0)

    def step(self, actions):
        """Return what the environments return."""
        return self.envs.step(actions)

# %% tags=["demo"]
def play(step, steps):
    """Choose and step `steps` times."""
    obs = np.zeros((2, 4))
    for _ in range(steps):
        obs, *_ = step(leans(weights, obs))


here, there, steps = carts(2), Carts.remote(), budget(1000, 150)
here.reset(seed=0)
ways = {
    "in one process": lambda: play(here.step, steps),
    "a call for each step": lambda: play(lambda actions: ray.get(there.step.remote(actions)), steps),
}
comparison = compare_times(ways, repeats=5)
ray.kill(there)
print({name: f"{1e6 * seconds / steps:.0f} µs a step" for name, seconds in comparison.medians.items()})
comparison

# %% [markdown]
r"""
A millisecond or so instead of tens of microseconds: you pay the price of a call (chapter 3) for every step.
A sampler pays it once for a whole **fragment** of steps.
If the agent is a large network on a GPU, the two are sometimes separated after all: hundreds of environments then send their observations in one message.
Both designs follow one rule: *few and large messages*.
"""

# %% [markdown]
r"""
## A fragment is not an episode

Write the sampler.
It owns a vector environment (chapter 7), which resets itself, and plays a fixed number of *frames* at each call: a fragment may begin and end mid-episode.

![Two environments play three fragments of six frames; episodes run across the borders of fragments; the frame after the end of an episode is a reset and is not real](../img/ch08_fragments.svg)

With $T$ frames of $N$ environments, a fragment is a dict of arrays:

| key | shape | |
|---|---|---|
| `obs` | [T, N, …] | what the policy saw when choosing the action |
| `actions`, `rewards`, `terminated`, `truncated` | [T, N] | what it did, and what came of it |
| `real` | [T, N] | False in the frame after an end, which is only a reset (chapter 7) |
| `last_obs` | [N, …] | what the next frame will begin with |
| `version` | a number | `weights["version"]` of the weights that played |

The seam between two fragments must not show:

- The next fragment continues where this one stopped.
- Use the seed once.
- If an episode ends in the last frame, the first frame of the *next* fragment is the reset.
- New weights count from the next call of `sample`; the first always arrive before the first `sample`.

It is an ordinary class, so you can try it without Ray: `sampler = Sampler(partial(carts, 2), leans, seed=0)`.
"""


# %%
class Sampler:
    """Plays in some environments, with the weights that it received last."""

    def __init__(self, make_envs, policy, seed):
        """`make_envs()` returns a vector environment; `policy(weights, obs)` returns an action for each observation."""
        ### BEGIN SOLUTION
        self.envs, self.policy = make_envs(), policy
        self.obs, _ = self.envs.reset(seed=seed)
        self.over = np.zeros(self.envs.num_envs, bool)  # where an episode has just ended, the next frame is a reset
        ### END SOLUTION

    def set_weights(self, weights):
        """Play with these from now on; `weights["version"]` is a number."""
        ### BEGIN SOLUTION
        self.weights = weights
        ### END SOLUTION

    def sample(self, steps):
        """Return a fragment: the next `steps` frames of all environments, as a dict with the keys above."""
        ### BEGIN SOLUTION
        columns = {key: [] for key in ("obs", "actions", "rewards", "terminated", "truncated", "real")}
        for _ in range(steps):
            obs, real = self.obs, ~self.over
            actions = self.policy(self.weights, obs)
            self.obs, rewards, terminated, truncated, _ = self.envs.step(actions)
            self.over = terminated | truncated
            frame = (obs, actions, rewards, terminated, truncated, real)
            for column, value in zip(columns.values(), frame, strict=True):
                column.append(value)
        arrays = {key: np.stack(column) for key, column in columns.items()}
        return {**arrays, "last_obs": self.obs, "version": self.weights["version"]}
        ### END SOLUTION


# %%
check("Sampler", Sampler)

# %% [markdown] tags=["solution"]
r"""
Everything that must survive the end of `sample` lives in the object: the observation and `over`.
If `over` is a local variable, each episode that ends with a fragment turns one reset into experience, too rarely to be noticed.
The observations of `SyncVectorEnv` are copies, so you can safely keep them; an environment that reuses its array needs `obs.copy()`.
"""

# %%
if passed("Sampler"):
    sampler = Sampler(partial(carts, 2), leans, seed=0)
    sampler.set_weights(weights | {"pole": np.array([0, 0, 1, 0])})  # only looks at the angle: its poles fall
    fragment = sampler.sample(200)
    for key, value in fragment.items():
        print(f"{key:12} {np.shape(value)!s:12} {np.asarray(value).dtype}")
    print(f"{fragment['real'].size} frames, {np.sum(~fragment['real'])} of them resets")

# %%
### BEGIN SOLUTION
where_it_stopped = "b"
### END SOLUTION

# %%
quiz("where_it_stopped", where_it_stopped)

# %% [markdown]
r"""
## Advantages are computed where a fragment ends, not where an episode does

To learn, you need to know how much better than expected each step turned out: its **advantage**.
The expectation comes from a network $V(s)$, which estimates the return from $s$.
The surprise of one step is

$$\delta_t = r_t + \gamma V(s_{t+1}) - V(s_t):$$

what it brought, plus what is expected after it, minus what was expected before.
**Generalised advantage estimation** (GAE, Schulman et al. 2016, equation 16) adds up the surprises of this step and those after it, and counts them less the further away they are:

$$\hat A_t = \delta_t + \gamma\lambda\,\delta_{t+1} + (\gamma\lambda)^2\,\delta_{t+2} + \dots = \delta_t + \gamma\lambda\,\hat A_{t+1}.$$

With $\lambda = 0$ only the step's own surprise counts, which trusts $V$ entirely.
With $\lambda = 1$ the values in between cancel: what remains is the discounted return of chapter 7 minus $V(s_t)$, which trusts the rewards, and is noisy.

Two rules hold at the ends; a program that breaks one may never learn, and never complains:

- **Terminated** at $t$: nothing follows, so $V(s_{t+1})$ counts as 0.
  **Truncated**: the episode would have continued, so $V(s_{t+1})$ counts.
- **Both** end the sum: the next row belongs to another episode.

The row after an end is the reset: its advantage means nothing, and the learner leaves it out.
There the policy saw the episode's true last observation, so `values[t + 1]` is right after a truncated end, too.

After the last row of the fragment the sum stops, and $V(s_T)$ is the value of `last_obs`.

**Predict**, on paper: rewards 1, 1, 1, all values 0, $\gamma = 0.5$, $\lambda = 1$.
And what if the episode terminated after the second step?
"""


# %%
def gae(rewards, values, terminated, truncated, gamma=0.99, lam=0.95):
    """Return advantages, one array [T, N]; `values` is [T+1, N], its last row the bootstrap (Schulman et al. 2016, eq. 16)."""
    ### BEGIN SOLUTION
    advantages, later = np.zeros(np.shape(rewards)), 0.0
    for t in reversed(range(len(rewards))):
        delta = rewards[t] + gamma * values[t + 1] * ~terminated[t] - values[t]
        later = delta + gamma * lam * later * ~(terminated[t] | truncated[t])
        advantages[t] = later
    return advantages
    ### END SOLUTION


# %%
check("gae", gae)

# %% [markdown] tags=["solution"]
r"""
One loop over time serves all environments, because `rewards[t]` is a row of $N$.
A program with a single flag `done` can only choose which rule it breaks.
`real` removes the reset rows before the learner sees them.
"""

# %% [markdown]
r"""
On paper it was 1.75, 1.5, 1; and 1.5, 1, 1 with an end after the second step.

Here is what your function does with one environment, rewards of 1 and a network that expects 10 in every state.
At step 20 the episode terminates, at step 40 it is truncated.
"""

# %% tags=["demo"]
if passed("gae"):
    flags = np.zeros((2, 60, 1), bool)
    flags[0, 20], flags[1, 40] = True, True
    figure, axes = plt.subplots(figsize=(7, 3), constrained_layout=True)
    for lam, colour in [(0.0, "#94a3b8"), (0.9, "#7c3aed"), (1.0, "#059669")]:
        advantages = gae(np.ones((60, 1)), np.full((61, 1), 10.0), *flags, gamma=0.95, lam=lam)
        axes.plot(advantages, ".-", color=colour, label=f"λ = {lam:g}")
    for step, name in [(20, "terminated"), (40, "truncated")]:
        axes.axvline(step + 0.5, color="#db2777", linestyle="--")
        axes.text(step + 1, -6, name, color="#db2777")
    axes.set(xlabel="step", ylabel="advantage", title="An end stops the sum; only a true end is a bad surprise")
    axes.legend(loc="lower left");

# %% [markdown]
r"""
With $\lambda = 0$ only step 20 itself knows of the fall.
With a larger $\lambda$ the steps before it learn that it was coming, the more so the closer they are.
At the truncated end nothing bad happens: the network's 10 stands for the future.
Nothing crosses a dashed line from right to left.
"""

# %% [markdown]
r"""
## State what a sampler needs, and Ray starts only as many as fit

Next come eight samplers, perhaps on two cores.
Whether they get in each other's way depends on whether they wait or compute (chapter 3), so measure what share of its time a sampler keeps a core busy.
Its environments nap for 2.5 ms in each step, as if the simulator ran elsewhere; with `busy=True` they compute for 2.5 ms, like one that runs here.
"""

# %%
slow_carts = partial(carts, 2, seconds=0.0025)


def share_of_a_core(make_envs, steps=100):
    """Return what share of the time a sampler of these environments keeps a core busy."""
    sampler = Sampler(make_envs, leans, seed=0)
    sampler.set_weights(weights)
    start, busy = time.perf_counter(), time.process_time()
    sampler.sample(steps)
    return (time.process_time() - busy) / (time.perf_counter() - start)


if passed("Sampler"):
    print(f"naps: {share_of_a_core(slow_carts):.0%} of a core")
    print(f"computes: {share_of_a_core(partial(slow_carts, busy=True)):.0%} of a core")

# %% [markdown]
r"""
Give that share as `num_cpus`; a running actor that names none reserves nothing (chapter 4).
On a busy machine, the second share is only what the other programs leave.
Ours need a few per cent; we say 0.5, so eight fill the four CPUs of this Ray.
`__ray_ready__` is a method that every actor has: the call ends once the actor lives.
"""

# %%
samplers = []
if passed("Sampler"):
    sampler_actor = ray.remote(Sampler).options(num_cpus=0.5)
    samplers = [sampler_actor.remote(slow_carts, leans, seed) for seed in range(8)]
    ray.get([sampler.__ray_ready__.remote() for sampler in samplers])
    print("CPUs that Ray still has to give away:", ray.available_resources().get("CPU", 0))

# %% tags=["demo"]
if passed("Sampler"):
    ninth = sampler_actor.remote(slow_carts, leans, 8)
    ray.wait([ninth.__ray_ready__.remote()], timeout=1)
    print("the ninth, which names 0.5 CPUs:", actors()[-1]["state"])
    ray.kill(ninth)

# %% [markdown]
r"""
The ninth waits for room; a sampler that reserved nothing would have started, and one that computes would have slowed the others down.
"""

# %% [markdown]
r"""
## One copy of the weights serves all samplers

Before each fragment, samplers need the newest weights.
Ours are four numbers; a real network's can take megabytes, so we add 8 MB of ballast.
Send them to eight samplers in two ways; Ray's records count the bytes that go into the store.
"""

# %% tags=["demo"]
heavy = weights | {"ballast": np.zeros(1_000_000)}  # 8 MB


def by_value():
    """Send the weights to every sampler."""
    ray.get([sampler.set_weights.remote(heavy) for sampler in samplers])


def by_reference():
    """Put the weights once, and send every sampler the reference."""
    ref = ray.put(heavy)
    ray.get([sampler.set_weights.remote(ref) for sampler in samplers])


if passed("Sampler"):
    for way in (by_value, by_reference):
        before = stores()[0]["created_bytes"]
        way()
        print(f"{way.__name__}: {(stores()[0]['created_bytes'] - before) / 1e6:.0f} MB put into the store")

# %% [markdown]
r"""
One copy for each sampler, or one for all: the samplers of a node map the same memory (chapter 2), and on a cluster each *node* fetches one copy.
For just four numbers it would make no difference.

Now put the pieces together.
`collect` is one **synchronous** round: all samplers play with the same weights, and the round is over when the last is done.
The check's samplers wait for each other, at most 20 s, and count what arrives.
"""


# %%
def collect(samplers, weights, steps):
    """Return a fragment of `steps` frames from each sampler, in the order of the samplers, played with these weights.

    The weights are put into the object store once, and all samplers play at the same time.
    """
    ### BEGIN SOLUTION
    ref = ray.put(weights)
    for sampler in samplers:
        sampler.set_weights.remote(ref)
    return ray.get([sampler.sample.remote(steps) for sampler in samplers])
    ### END SOLUTION


# %%
check("collect", collect)

# %% [markdown] tags=["solution"]
r"""
You need not wait for `set_weights`: one caller's calls to one actor run in the order sent, so `sample` finds the new weights.
Three kinds of actor make no such promise: async ones, threaded ones, and those with `allow_out_of_order_execution=True`.
And a call that Ray retries after a failure (`max_task_retries`, chapter 5) may run after later ones.
"""

# %% [markdown]
r"""
## Amdahl's law says when to stop adding samplers

Now use one, two, up to eight samplers.
In each iteration they play 96 frames *together*, so each plays fewer when there are more; then the learner needs 30 ms (a nap, for now), which no sampler can shorten.
For such a program, **Amdahl's law** says

$$\text{seconds}(n) = \text{serial} + \frac{\text{parallel}}{n}.$$

**Predict:** one sampler needs $96 \cdot 2 \cdot 2.5\,$ms $= 480$ ms to play.
How many times as fast is the iteration with eight?
"""

# %% tags=["demo"]
FRAMES, counts = 96, [1, 2, 3, 4, 6, 8]


def seconds_of_an_iteration(count):
    """Return the seconds of one iteration with `count` samplers."""
    start = time.perf_counter()
    collect(samplers[:count], weights, FRAMES // count)
    time.sleep(0.03)  # the learner
    return time.perf_counter() - start


if passed("Sampler") and passed("collect"):
    seconds_of_an_iteration(8)  # warm-up
    rounds = [[seconds_of_an_iteration(count) for count in counts] for _ in range(budget(15, 4))]
    typical = np.median(rounds, axis=0)  # so that one hiccup of the machine does not bend the fit

# %% [markdown]
r"""
The law is a straight line in $1/n$, so least squares finds its two numbers.
We fit the relative errors, so that 5 % counts the same for eight samplers as for one.

The **residuals** are what the law leaves unexplained: measured against fitted, in per cent.
A fitted curve usually looks good; residuals show what is wrong with it.
"""

# %% tags=["demo"]
def fit_amdahl(n, seconds):
    """Return serial and parallel seconds: the least squares of the relative errors of serial + parallel / n."""
    columns = np.stack([np.ones(len(n)), 1 / np.array(n)], axis=1)
    return np.linalg.lstsq(columns / seconds[:, None], np.ones(len(n)))[0]


if passed("Sampler") and passed("collect"):
    serial, parallel = fit_amdahl(counts, typical)
    fitted = serial + parallel / np.array(counts)
    residuals = 100 * (typical / fitted - 1)
    print(f"serial {1000 * serial:.0f} ms, parallel {1000 * parallel:.0f} ms")
    print(f"at most {(serial + parallel) / serial:.1f} times as fast as one sampler, however many there are")

# %% tags=["demo"]
if passed("Sampler") and passed("collect"):
    figure, (above, below) = plt.subplots(2, figsize=(7, 5), sharex=True, height_ratios=[2, 1], constrained_layout=True)
    line = np.linspace(1, 8, 100)
    above.plot(line, 2 * FRAMES / (serial + parallel / line), color="#059669", label="Amdahl's law, fitted")
    above.plot(line, 2 * FRAMES / (serial + parallel) * line, ":", color="#94a3b8", label="in proportion")
    above.plot(counts, 2 * FRAMES / typical, "o", color="#7c3aed", label="measured (median)")
    above.plot(counts, 2 * FRAMES / np.transpose(rounds), ".", color="#7c3aed", alpha=0.3)
    above.set(ylabel="environment steps a second", title="The learner's share grows with every sampler")
    above.legend()
    below.axhline(0, color="#059669")
    below.plot(counts, 100 * (np.transpose(rounds) / fitted[:, None] - 1), ".", color="#7c3aed", alpha=0.3)
    below.stem(counts, residuals, linefmt="#7c3aed", basefmt=" ")
    limit = 10 + 2 * np.abs(residuals).max()  # a hiccup may lie outside
    below.set(xlabel="samplers", ylabel="residual (%)", ylim=(-limit, limit));

# %% [markdown]
r"""
You built it, so you know the truth: 480 ms parallel, 30 ms serial.
Whatever the fit found beyond the 30 is the price of distribution: sending weights, calling, fetching, waiting for the last sampler.
The 480 grow a little as well: no nap is shorter than requested, and on a busy machine many are longer.

If the large residuals, those of the medians, scatter around zero without order, the rest is chance.
If they form a *pattern*, such as high, low, high, a cost unknown to the law grows with every sampler; then the fit is too optimistic beyond your last point.

These samplers nap, so eight fit on two cores.
Samplers that compute would follow the law up to the number of cores, and leave it there with a kink.
A cluster has more cores, so the kink comes later; the learner's 30 ms stay.
"""

# %%
### BEGIN SOLUTION
amdahls_limit = "c"
### END SOLUTION

# %%
quiz("amdahls_limit", amdahls_limit)

# %% [markdown] tags=["notes"]
r"""
Half-time.
Collect the fitted serial milliseconds from the room: they vary between machines, and all are above 30.
Ask what each pair would do next: add samplers, or make the learner faster?
"""

# %% [markdown]
r"""
## In step, all are as slow as the slowest

So far all samplers were alike.
Real ones are not: one machine is older, one level of the game is harder.
Now take four samplers, and let the last one's environments take three times as long for a step.
The other four end to make room.
"""

# %% tags=["demo"]
if passed("Sampler") and passed("collect"):
    for spare in samplers[4:]:
        ray.kill(spare)
    straggler = sampler_actor.remote(partial(carts, 2, seconds=0.0075), leans, 8)
    crew = [*samplers[:3], straggler]
    collect(crew, weights, 1)  # warm-up
    start = time.perf_counter()
    with recorded() as in_step:
        for _ in range(4):
            collect(crew, weights, 20)
    sync_speed = 16 / (time.perf_counter() - start)
    timeline(in_step).set_title(f"In step: {sync_speed:.1f} fragments a second");

# %% [markdown]
r"""
Three rows of short bars with long gaps, and the straggler's row of long bars.
Without waiting, the three would make three times as many fragments.

**Asynchronous** collection has no rounds.
Every sampler plays all the time; when one hands in a fragment, you learn from it at once, give that sampler the newest weights, and send it off again.
This is chapter 1's `bounded_map` with actors.

Call `learn(fragment)` in your notebook for `count` fragments, in the order they come; it returns new weights.
First learn, then send that sampler off with what `learn` returned.
Each fragment is new experience; never learn from one twice.

Among a hundred samplers, one will die sooner or later (chapter 5): `ray.get` of its fragment then raises `ray.exceptions.RayActorError`.
Continue with the rest.

After `count` fragments you are done: leave alone whatever is still under way.
A sampler sent off once too often does no harm.

The check has three samplers: one is slow, and one dies.
"""


# %%
def collect_async(samplers, weights, steps, count, learn):
    """Call `learn(fragment)`, which returns new weights, for `count` fragments of `steps` frames as they come.

    All samplers play all the time, each fragment with the newest weights at its start. One that dies is left out.
    """
    ### BEGIN SOLUTION
    playing, learned = {}, 0

    def send_off(sampler, ref):
        sampler.set_weights.remote(ref)
        playing[sampler.sample.remote(steps)] = sampler

    ref = ray.put(weights)
    for sampler in samplers:
        send_off(sampler, ref)
    while learned < count:
        (ready,), _ = ray.wait(list(playing), num_returns=1)
        sampler = playing.pop(ready)
        try:
            fragment = ray.get(ready)
        except ray.exceptions.RayActorError:
            continue  # nothing came, and there is no sampler to send off
        ref = ray.put(learn(fragment))
        learned += 1
        send_off(sampler, ref)
    ### END SOLUTION


# %%
check("collect_async", collect_async)

# %% [markdown] tags=["solution"]
r"""
If several fragments are ready, Ray does not promise which `ray.wait` returns.
Still no sampler starves: the one just sent off has to play first, and the others are ready before it.
When the last sampler dies, `ray.wait([])` returns two empty lists, and unpacking the ready one raises a `ValueError`, which is better than waiting forever.
The fragments under way at the end are lost; in a long run that does not matter.

Ray can also restart a sampler (`max_restarts`, chapter 5).
The new process begins with `__init__`, so its weights are gone: send them before its next `sample`.
"""

# %% [markdown]
r"""
Collect the same number of fragments from the same four samplers.

**Predict:** how old, in versions, are a fragment's weights by the time you learn from it?
"""

# %% tags=["demo"]
class Counts:
    """Stands in for a learner: makes a new version of the weights for each fragment, and notes how old the fragment's were."""

    def __init__(self):
        self.version, self.ages = 0, []

    def learn(self, fragment):
        """Return weights with the next version."""
        self.ages.append(self.version - fragment["version"])
        self.version += 1
        return weights | {"version": self.version}


if passed("Sampler") and passed("collect") and passed("collect_async"):
    start = time.perf_counter()
    with recorded() as as_they_come:
        collect_async(crew, weights, 20, 16, Counts().learn)
        async_speed = 16 / (time.perf_counter() - start)
    timeline(as_they_come).set_title(f"As they come: {async_speed:.1f} fragments a second, before {sync_speed:.1f}");

# %% tags=["demo"]
if passed("Sampler") and passed("collect") and passed("collect_async"):
    noted = Counts()
    collect_async(crew, weights, 10, budget(300, 80), noted.learn)
    figure, axes = plt.subplots(figsize=(7, 2.8), constrained_layout=True)
    ages, times = np.unique(noted.ages, return_counts=True)
    axes.bar(ages, times, color="#7c3aed")
    axes.set(xlabel="age of the weights, in versions", ylabel="fragments")
    axes.set_title("No sampler waits, so every fragment is a little old");

# %% [markdown]
r"""
Hardly a gap, and about twice as many fragments: that was the straggler's cost in step.
Each way was timed once, so another program that needs the cores can reverse the result; then run both cells again.
But look at the ages.
While a quick sampler plays, the other quick ones and sometimes the straggler hand in fragments too, so its weights are two or three versions old when its turn comes.
The straggler's are up to three times as old: its fragments are the bars on the right.
The youngest ages come from the start.

In step, with one update a round, every age is 0.
So you choose between **waiting** and **stale experience**: a fragment shows what an older policy did.
A second price is not in this plot: the straggler delivers about one fragment in ten instead of one in four.
If it is slow because its levels are hard, your agent mostly sees easy ones.

Algorithms answer differently.
PPO (chapter 10) collects in step.
IMPALA and APPO (chapter 13) collect as fragments come, and weigh each step with the ratio of the new policy to the old one.
DQN (chapter 9) keeps old experience on purpose.
"""

# %%
### BEGIN SOLUTION
who_waits = "b"
### END SOLUTION

# %%
quiz("who_waits", who_waits)

# %%
### BEGIN SOLUTION
async_price = "c"
### END SOLUTION

# %%
quiz("async_price", async_price)

# %% [markdown]
r"""
## A fragment should be as long as it must, and no longer

The weights' age also grows with the length of a fragment: its last frame is played with weights from before its first.
So short fragments are fresher, but each has its price: the call, the packing, the fetching.
How short can a fragment be?

Measure how long fragments of several lengths take.
The points lie near a line: $\text{seconds} = \text{price} + L \cdot \text{seconds of a frame}$.
Then $\text{price} / (\text{price} + L \cdot \text{seconds of a frame})$ is the share of the time that is overhead; you say how much of that you accept.

Fit the line with `np.polyfit(lengths, seconds, 1)`.
By chance the price can come out as 0 or less; then one frame is enough.

Try it on paper first: a call costs 10 ms, a frame 1 ms.
Which length wastes a tenth?
It is not 100.
"""


# %%
def fragment_length(lengths, seconds, share):
    """Return the smallest number of frames, at least 1, for which at most `share` of the time is overhead.

    `seconds[i]` is how long a fragment of `lengths[i]` frames took.
    """
    ### BEGIN SOLUTION
    frame, price = np.polyfit(lengths, seconds, 1)
    exact = (price / share - price) / frame
    return max(1, int(np.ceil(exact - 1e-6)))  # less a hair: 90.0000000001 is 90
    ### END SOLUTION


# %%
check("fragment_length", fragment_length)

# %% [markdown] tags=["solution"]
r"""
Overhead is a share of the *whole*, so $\text{price} = \text{share} \cdot (\text{price} + L \cdot \text{frame})$; solve for $L$.
"""

# %% [markdown]
r"""
On paper it was 90: of 100 ms in all, 10 are overhead.

Now measure two samplers: one with plain CartPoles, some 30 µs a frame, and one with slow ones, 5 ms a frame.
The dashed lines are your answers for a tenth of overhead.
"""

# %% tags=["demo"]
def seconds_by_length(sampler, lengths):
    """Return the seconds of a fragment of each length, the fastest of several: what else the machine does only adds."""
    sampler.set_weights.remote(weights)
    found = []
    for length in lengths:
        times = []
        for _ in range(budget(21, 7)):
            start = time.perf_counter()
            ray.get(sampler.sample.remote(length))
            times.append(time.perf_counter() - start)
        found.append(min(times))
    return found


if passed("Sampler") and passed("fragment_length"):
    quick = sampler_actor.remote(partial(carts, 2), leans, 9)
    kinds = {"plain CartPoles": (quick, [1, 4, 16, 64, 256, 1024]), "slow ones": (samplers[0], [1, 2, 4, 8, 16])}
    ray.get(quick.set_weights.remote(weights))
    ray.get(quick.sample.remote(1))  # warm-up
    measured = {kind: (lengths, seconds_by_length(each, lengths)) for kind, (each, lengths) in kinds.items()}

# %% tags=["demo"]
if passed("Sampler") and passed("fragment_length"):
    figure, axes = plt.subplots(figsize=(7, 3.2), constrained_layout=True)
    for (kind, (lengths, times)), colour in zip(measured.items(), ["#db2777", "#7c3aed"], strict=True):
        frame, price = np.polyfit(lengths, times, 1)
        chosen = fragment_length(lengths, times, 0.1)
        label = f"{kind}: {1000 * price:.1f} ms + L · {1000 * frame:.2f} ms, so L = {chosen}"
        playing = np.minimum(frame * np.array(lengths) / times, 1)  # the fitted frame may be a little too long
        axes.semilogx(lengths, playing, "o-", color=colour, label=label)
        axes.axvline(chosen, color=colour, linestyle="--")
    axes.set_xticks([1, 4, 16, 64, 256, 1024], [1, 4, 16, 64, 256, 1024])
    axes.minorticks_off()
    axes.set(xlabel="frames in a fragment", ylabel="share of time spent playing", ylim=(0, 1.05))
    axes.set_title("Slow simulators can afford short fragments")
    axes.legend(frameon=False, bbox_to_anchor=(0.9, -0.2));

# %% [markdown]
r"""
The price of a call is about the same for both; what differs is how much playing there is to pay it with.
So "use longer fragments" is good advice for fast environments, and gains little for slow ones.
The fit weighs all lengths alike, so on a busy machine the price of the quick one comes out a little high or low.

In RLlib the setting is called `rollout_fragment_length`, and `"auto"` derives it from the batch that the learner wants.
"""

# %% [markdown]
r"""
## Four parts, and your code only passes on references

Here is all of it: three samplers and the straggler, a buffer, a learner.
The learner's update is a nap, since learning comes in chapters 9 and 10.
"""

# %%
@ray.remote(num_cpus=0.5)
class Buffer:
    """A rollout buffer: keeps fragments until they are taken, and then forgets them."""

    def __init__(self):
        self.fragments = []

    def add(self, fragment):
        """Keep a fragment."""
        self.fragments.append(fragment)

    def take(self):
        """Return all fragments, and forget them."""
        taken, self.fragments = self.fragments, []
        return taken

# %%
@ray.remote(num_cpus=0.5)
class Learner:
    """Stands in for a learner: an update is a nap of 50 ms."""

    def __init__(self, weights):
        self.weights = weights

    def newest(self):
        """Return the weights."""
        return self.weights

    def learn(self, fragments):
        """Return the version after an update with these fragments, and how many real steps they had."""
        time.sleep(0.05)
        self.weights = self.weights | {"version": self.weights["version"] + 1}
        return self.weights["version"], sum(int(fragment["real"].sum()) for fragment in fragments)

# %% [markdown]
r"""
Read the loop: does it wait anywhere?

**Predict:** how long does this cell take to *launch* four whole iterations?
Do the fragments pass through your notebook's process?
"""

# %% tags=["demo"]
if passed("Sampler") and passed("collect"):
    buffer, learner = Buffer.remote(), Learner.remote(weights)
    ray.get([buffer.take.remote(), learner.newest.remote()])
    with recorded() as program:
        start, updates = time.perf_counter(), []
        for _ in range(4):
            newest = learner.newest.remote()
            for sampler in crew:
                sampler.set_weights.remote(newest)
                buffer.add.remote(sampler.sample.remote(15))
            updates.append(learner.learn.remote(buffer.take.remote()))
        launched = time.perf_counter() - start
        print(f"launched in {1000 * launched:.0f} ms;", "version and steps of each update:", ray.get(updates))
    timeline(program).set_title("Sample, add, take, learn");

# %% [markdown]
r"""
The loop waits nowhere: it launches four iterations in a few milliseconds.
Ray keeps the order, because each call takes the reference that the one before returns, and because your notebook's calls to one actor run in order: `take` comes after the four `add`.

The picture also shows what is wrong with this program: the samplers rest while the learner learns, and three rest while the straggler plays.
Which of this chapter's remedies would you try first?

Your *code* saw only references.
Where did the fragments go?
A result under 100 kB returns inside the reply to the process that made the call, and travels on inside the next call; a larger one stays in the object store (chapter 1).
So count what a short and a long fragment leave there.
"""

# %% tags=["demo"]
if passed("Sampler") and passed("collect") and passed("fragment_length"):
    for frames in (15, 4000):
        before = stores()[0]["created_bytes"]
        ray.get(buffer.add.remote(quick.sample.remote(frames)))
        print(f"{frames} frames: {(stores()[0]['created_bytes'] - before) / 1000:.0f} kB put into the store")

# %% [markdown]
r"""
Our fragments never saw the store: each came back to your notebook's process and left it again in the message to the buffer.
A few kilobytes do no harm there.
With hundreds of samplers that process becomes the bottleneck, and longer fragments relieve it: they go from the sampler's node to the buffer's, and your notebook holds only their references.
Stack the columns before you send them, as your sampler does: one array is read where it lies, while a list of arrays is unpacked one by one (chapter 2).
"""

# %% tags=["demo"]
ray.shutdown()

# %% [markdown] tags=["notes"]
r"""
Let pairs draw the same timeline for `collect_async` with a learner actor, before they read chapter 13.
The room will ask whether the buffer is worth an actor when the learner could keep the list: for one learner it is not.
"""

# %% [markdown]
r"""
## What you can do now

- You write a sampler whose fragments fit together without a seam.
- You compute advantages, and no reward leaks across the end of an episode.
- You collect in step or as fragments come, even when a sampler is slow or dies, and you know the price of each: waiting, or stale experience.
- You fit Amdahl's law, and look at the residuals before you believe it.
- You choose the length of a fragment and a sampler's resources from measurements, and know which messages pass through your notebook.

## Traps

- **`reset` at the start of a fragment** cuts episodes short; with a fixed seed, it even plays the same experience over and over.
- **The reset frame at a seam**: the episode ended in the last fragment, and the reset is in this one.
- **One flag `done`** makes either the bootstrap or the sum wrong.
- **`set_weights` after `sample`** works, but every fragment is one version too old.
- **A restarted sampler** has no weights until you send them again.
- **Quick samplers deliver more** in asynchronous collection.
  Ask what they do *not* show.
- **A fit that looks good** proves nothing.
  Look at the residuals.

## Read on

- [Chapter 9](ch09_dqn.ipynb): a replay buffer, and a learner that learns.
  [Chapter 10](ch10_actor_learner.ipynb): PPO with these samplers and this `gae`.
- Schulman et al., [*High-Dimensional Continuous Control Using Generalized Advantage Estimation*](https://arxiv.org/abs/1506.02438), 2016.
- Espeholt et al., [*IMPALA*](https://arxiv.org/abs/1802.01561), 2018: samplers that never wait, and the correction for that.
- Nair et al., [*Gorila*](https://arxiv.org/abs/1507.04296), 2015: the four parts on more than a hundred machines; and Mnih et al., [*Asynchronous Methods for Deep Reinforcement Learning*](https://arxiv.org/abs/1602.01783), 2016: on the threads of one.
- Gunther, *Guerrilla Capacity Planning*, 2007: the law with a term that grows, for residuals with a pattern.
"""
