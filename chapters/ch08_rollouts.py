# %% [markdown] you_learn_to="collect with many samplers, synchronously and asynchronously; compute GAE"
r"""
# Chapter 8 · Rollouts

Many samplers collect experience in parallel, and none of them has to wait for the slowest.

*About 105 minutes · builds on [Chapter 2](ch02_objects.ipynb), [Chapter 3](ch03_actors.ipynb), and [Chapter 7](ch07_environments.ipynb)*

**What you will be able to do**

- name the four parts of a distributed RL program, and write a sampler, which collects experience;
- compute advantages from a fragment of experience that starts and stops in the middle of an episode;
- collect from many samplers, synchronously and asynchronously, and explain what each costs;
- fit Amdahl's law to your own measurements, and use the residuals to decide whether to trust the fit;
- choose a sampler's resources and the length of a fragment from measurements.
"""

# %%
import time
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import ray

from coursekit import actors, begin, budget, check, compare_times, explain, hint, measured, passed, predict, progress
from coursekit import puzzle, quiz, review
from coursekit import recorded, solution, stores, timeline, track
from coursekit.given.ch08_rollouts import carts, leans

begin("ch08_rollouts")

# %%
ray.shutdown()  # stops a Ray instance that's already running here: its references and actors are gone
ray.init(num_cpus=4, include_dashboard=False);

# %% [markdown] tags=["notes"]
r"""
The run sheet allots 105 minutes, with `collect_async` and `fragment_length` as homework.
In most rooms, `gae` takes longer than planned, so use a whiteboard, and let pairs compute the check's hand-made cases first.
Have everyone run the two cells above before you speak.
"""

# %% [markdown]
r"""
## Distributed reinforcement learning has four parts

In Chapter 7, everything ran in one process.
A distributed RL program has four parts, whatever the algorithm:

![Samplers send fragments of experience to a buffer; the learner takes batches from it and puts new weights into the object store, where every sampler reads them](../img/ch08_parts.svg)

- The **environment** takes actions and returns observations and rewards.
- The **agent** chooses the actions.
  It's a policy with weights, and every process that acts with it has a copy.
- The **buffer** keeps experience for the learner.
  A [*rollout buffer*](../docs/glossary.md#rollout-buffer) is emptied when the learner has finished with its experience, because by then the policy has changed.
  A *replay buffer* keeps its experience for many updates (Chapter 9).
- The [**learner**](../docs/glossary.md#learner) computes new weights.

By the end of this chapter, all four run in actors, and your notebook only connects them.
An actor that holds environments and an agent is called a [**sampler**](../docs/glossary.md#sampler) here, an *EnvRunner* in RLlib, and a *rollout worker* in older texts ([Old names](../docs/old_names.md)).
"""

# %% [markdown]
r"""
## The environment and the agent belong in the same process

To see why, separate them: put two CartPoles in an actor, and keep the agent in your notebook, so every step is a remote call.
The agent is one line of NumPy that pushes toward the side that the pole is about to lean to.
`carts(2)` is a `SyncVectorEnv` of two CartPoles.

**Predict:** in a local loop, a step of both carts takes 30 to 100 µs.
How long does it take as a remote call?
"""

# %% tags=["demo"]
predict("remote_step", ...)  # microseconds

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
def run(step, steps):
    """Choose actions and step, `steps` times."""
    obs = np.zeros((2, 4))
    for _ in range(steps):
        obs, *_ = step(leans(weights, obs))


here, there, steps = carts(2), Carts.remote(), budget(1000, 150)
here.reset(seed=0)
ways = {
    "in one process": lambda: run(here.step, steps),
    "one call per step": lambda: run(lambda actions: ray.get(there.step.remote(actions)), steps),
}
comparison = compare_times(ways, repeats=5)
ray.kill(there)
microseconds = {name: 1e6 * seconds / steps for name, seconds in comparison.medians.items()}
print({name: f"{each:.0f} µs per step" for name, each in microseconds.items()})
display(comparison)
measured("remote_step", microseconds["one call per step"])

# %% [markdown]
r"""
A step takes a millisecond or more instead of tens of microseconds, because every step pays the overhead of a call (Chapter 3).
A sampler pays it once for a whole [**fragment**](../docs/glossary.md#fragment), the experience of many steps.
If the agent is a large network on a GPU, it may still pay to separate the two, but then hundreds of environments send their observations in one message.
Both designs follow the same rule: *send few, large messages*.
"""

# %% [markdown]
r"""
## A fragment is not an episode

Now write the sampler.
It holds the vector environment that `make_envs()` returns, which resets itself (Chapter 7), and each call to `sample(steps)` returns the next `steps` frames.

![Two environments run for three fragments of six frames; episodes continue from one fragment into the next; the frame after an episode's end is a reset](../img/ch08_fragments.svg)

For $T$ frames of $N$ environments, a fragment is a dict of arrays:

| key | shape | what it holds |
|---|---|---|
| `obs` | [T, N, …] | what the policy observed when it chose the actions |
| `actions`, `rewards`, `terminated`, `truncated` | [T, N] | the actions from `policy(weights, obs)`, and what the environments returned |
| `real` | [T, N] | False for the frame after an episode's end, which is only a reset |
| `last_obs` | [N, …] | the observation that the next frame starts from |
| `version` | a number | `weights["version"]` of the weights that chose the actions |

Fragments must fit together without a seam:

- Each one continues where the previous one stopped, even mid-episode.
- The environments are seeded once, at the first reset.
- If an episode ends in a fragment's last frame, the *next* fragment's first frame is the reset.
- New weights take effect at the next call to `sample`; `set_weights` is always called before the first one.

You can try your class without Ray: `sampler = Sampler(partial(carts, 2), leans, seed=0)`.
"""


# %%
class Sampler:
    """Collects experience from some environments, with the weights that it received last."""

    def __init__(self, make_envs, policy, seed):
        """`make_envs()` returns a vector environment; `policy(weights, obs)` returns an action for each observation."""
        ### BEGIN SOLUTION
        self.envs, self.policy = make_envs(), policy
        self.obs, _ = self.envs.reset(seed=seed)
        self.over = np.zeros(self.envs.num_envs, bool)  # where an episode has just ended, the next frame is a reset
        ### END SOLUTION

    def set_weights(self, weights):
        """Use these weights from the next call to `sample` on; `weights["version"]` is a number."""
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
Whatever must outlive a call to `sample` is stored in the object: the observation and `over`.
If `over` is a local variable, every episode that ends in a fragment's last frame makes one reset count as experience, and that happens too rarely for you to notice.
`SyncVectorEnv` returns copies of its observations, so it's safe to keep them.
If an environment reuses its array, you need `obs.copy()`.
"""

# %%
if passed("Sampler"):
    sampler = Sampler(partial(carts, 2), leans, seed=0)
    sampler.set_weights(weights | {"pole": np.array([0, 0, 1, 0])})  # reacts to the angle alone, so its poles fall
    fragment = sampler.sample(200)
    for key, value in fragment.items():
        print(f"{key:12} {np.shape(value)!s:12} {np.asarray(value).dtype}")
    print(f"{np.sum(~fragment['real'])} of the {fragment['real'].size} rows are resets")

# %% [markdown]
r"""
## Compute advantages per fragment, not per episode

To learn, you need to know how much better than expected each step turned out: its [**advantage**](../docs/glossary.md#advantage).
The expectation comes from a network $V(s)$, which estimates the return from $s$.
The [**TD error**](../docs/glossary.md#td-error) of one step is

$$\delta_t = r_t + \gamma V(s_{t+1}) - V(s_t):$$

the reward, plus the discounted value that's expected afterward, minus the value that was expected before.
[**Generalized advantage estimation**](../docs/glossary.md#gae) (GAE, Schulman et al. 2016, equation 16) sums the TD errors of this step and all later ones, and gives each one less weight the further away it is:

$$\hat A_t = \delta_t + \gamma\lambda\,\delta_{t+1} + (\gamma\lambda)^2\,\delta_{t+2} + \dots = \delta_t + \gamma\lambda\,\hat A_{t+1}.$$

With $\lambda = 0$, only the step's own TD error counts, which takes everything after the step's reward from $V$.
With $\lambda = 1$, the values in between cancel, and what remains is the discounted return (Chapter 7) minus $V(s_t)$; this relies on the rewards, so it's noisy.
"""

# %%
### BEGIN SOLUTION
where_it_stopped = "b"
### END SOLUTION

# %%
quiz("where_it_stopped", where_it_stopped)

# %% [markdown]
r"""
Two rules apply where an episode ends.
A program that breaks one of them may never learn, and you see no error:

- **Terminated** at $t$, even if both flags are set: nothing follows, so $V(s_{t+1})$ counts as 0.
  **Truncated** only: the episode would have continued, so $V(s_{t+1})$ counts.
- **Both** kinds of end stop the sum, because the next row belongs to another episode.

The row after an end is the reset, whose advantage is meaningless, so the learner leaves it out.
But in that row, the policy saw the episode's true last observation, so `values[t + 1]` is the correct value even after a truncation.
After the fragment's last row, the sum stops, and the [bootstrap](../docs/glossary.md#bootstrap) $V(s_T)$ is the value of `last_obs`.

**Predict:** work this out on paper: the rewards are 1, 1, 1, all values are 0, $\gamma = 0.5$, $\lambda = 1$, and the episode terminates in the second step.
What's the advantage of the first step?
"""

# %% tags=["demo"]
predict("first_advantage", ...)

# %% [markdown]
r"""
Write `gae`, which returns the advantages, one array [T, N] of floats.
`rewards` is [T, N], of floats or integers, and the flags `terminated` and `truncated` are [T, N], of booleans.
`values` is [T+1, N], and its last row is the value of `last_obs`.
"""


# %%
def gae(rewards, values, terminated, truncated, gamma=0.99, lam=0.95):
    """Return the advantages, one array [T, N] of floats (Schulman et al. 2016, eq. 16).

    `rewards` is [T, N], of floats or integers. `terminated` and `truncated` are [T, N], of booleans.
    `values` is [T+1, N]; its last row is the value of `last_obs`.
    """
    ### BEGIN SOLUTION
    advantages, later = np.zeros(np.shape(rewards)), 0.0
    for t in reversed(range(len(rewards))):
        delta = rewards[t] + gamma * values[t + 1] * (1.0 - terminated[t]) - values[t]
        later = delta + gamma * lam * later * (1.0 - (terminated[t] | truncated[t]))
        advantages[t] = later
    return advantages
    ### END SOLUTION


# %%
check("gae", gae)

# %% [markdown] tags=["solution"]
r"""
One loop over time handles all environments, because `rewards[t]` is a row of $N$ numbers.
`~terminated[t]` does the same as `1.0 - terminated[t]` if the flags are booleans.
But if they were saved as `uint8`, `~1` is 254 and `~0` is 255, so the advantages explode, and you see no error.

A program with a single `done` flag breaks one of the two rules, unless it adds $\gamma V$ of the last observation to the reward at each truncation, as Stable-Baselines3 does.
The learner uses `real` to leave out the resets.
"""

# %% tags=["demo"]
if passed("gae"):
    ends = np.array([[False], [True], [False]])
    on_paper = gae(np.ones((3, 1)), np.zeros((4, 1)), ends, np.zeros_like(ends), gamma=0.5, lam=1.0)
    display(measured("first_advantage", on_paper[0, 0]))

# %% [markdown]
r"""
The three advantages are 1.5, 1, and 1; without the end, they'd be 1.75, 1.5, and 1.

Here's what your function returns for one environment with rewards of 1 and a network that expects 10 in every state.
At step 20, the first episode terminates; at step 40, the second one is truncated.
"""

# %% tags=["demo"]
if passed("gae"):
    flags = np.zeros((2, 60, 1), bool)
    flags[0, 20], flags[1, 40] = True, True
    figure, axes = plt.subplots(figsize=(7, 3), constrained_layout=True)
    for lam, color in [(0.0, "#94a3b8"), (0.9, "#7c3aed"), (1.0, "#059669")]:
        advantages = gae(np.ones((60, 1)), np.full((61, 1), 10.0), *flags, gamma=0.95, lam=lam)
        axes.plot(advantages, ".-", color=color, label=f"λ = {lam:g}")
    for step, name in [(20, "terminated"), (40, "truncated")]:
        axes.axvline(step + 0.5, color="#db2777", linestyle="--")
        axes.text(step + 1, -6, name, color="#db2777")
    axes.set(xlabel="step", ylabel="advantage", title="Both ends stop the sum, but only a termination is bad news")
    axes.legend(loc="lower left");

# %% [markdown]
r"""
With $\lambda = 0$, only step 20 itself registers the termination.
With a larger $\lambda$, the steps before it share the blame, and the closest ones get the most.
At the truncation, nothing bad happens, because the network's 10 stands in for the rest of the episode.
Nothing crosses a dashed line from right to left.
"""

# %% [markdown]
r"""
## State what a sampler needs, and Ray starts only as many as fit

Next, you start eight samplers, perhaps on only two cores.
Whether they slow each other down depends on whether they wait or compute (Chapter 3), so measure what fraction of a core a sampler uses.
In each step, an environment sleeps for 2.5 ms, as if its simulator ran elsewhere; with `busy=True`, it computes for 2.5 ms, as a local simulator would.
"""

# %%
slow_carts = partial(carts, 2, seconds=0.0025)


def fraction_of_a_core(make_envs, steps=100):
    """Return the fraction of the time for which a sampler of these environments keeps a core busy."""
    sampler = Sampler(make_envs, leans, seed=0)
    sampler.set_weights(weights)
    start, busy = time.perf_counter(), time.process_time()
    sampler.sample(steps)
    return (time.process_time() - busy) / (time.perf_counter() - start)


if passed("Sampler"):
    print(f"it sleeps: {fraction_of_a_core(slow_carts):.0%} of a core")
    print(f"it computes: {fraction_of_a_core(partial(slow_carts, busy=True)):.0%} of a core")

# %% [markdown]
r"""
Pass that fraction as `num_cpus`, because by default, a running actor reserves no CPU (Chapter 4).
Our samplers, which sleep, need a tenth of a core or less, but we request 0.5, so that eight of them fill this Ray instance's four CPUs.
"""

# %%
samplers = []
if passed("Sampler"):
    sampler_actor = ray.remote(Sampler).options(num_cpus=0.5)
    seeds = range(0, 16, 2)  # the two environments of a sampler get the seeds `seed` and `seed + 1`
    samplers = [sampler_actor.remote(slow_carts, leans, seed) for seed in seeds]
    ray.get([sampler.__ray_ready__.remote() for sampler in samplers])  # returns once all have started
    print("CPUs that Ray can still assign:", ray.available_resources().get("CPU", 0))

# %% tags=["demo"]
if passed("Sampler"):
    ninth = sampler_actor.remote(slow_carts, leans, 8)
    ray.wait([ninth.__ray_ready__.remote()], timeout=1)
    print("the ninth sampler, which requests 0.5 CPUs:", actors()[-1]["state"])
    ray.kill(ninth)

# %% [markdown]
r"""
The ninth sampler waits until half a CPU is free.
With Ray's default, it would have started, and if it computed, it would have slowed down the others.
"""

# %% [markdown]
r"""
## One copy of the weights serves all samplers

Before each fragment, the samplers need the current weights.
Ours are four numbers, but a real network's can take megabytes, so we add 8 MB of ballast.
Send them to eight samplers in two ways, and compare how many bytes go into the object store.
"""

# %% tags=["demo"]
heavy = weights | {"ballast": np.zeros(1_000_000)}  # 8 MB


def by_value():
    """Send the weights to every sampler."""
    ray.get([sampler.set_weights.remote(heavy) for sampler in samplers])


def by_reference():
    """Put the weights once, and send the reference to every sampler."""
    ref = ray.put(heavy)
    ray.get([sampler.set_weights.remote(ref) for sampler in samplers])


if passed("Sampler"):
    for way in (by_value, by_reference):
        before = stores()[0]["created_bytes"]
        way()
        print(f"{way.__name__}: {(stores()[0]['created_bytes'] - before) / 1e6:.0f} MB put into the store")

# %% [markdown]
r"""
By value, Ray stores one copy per sampler; by reference, it stores only one.
The samplers on a node map the same memory (Chapter 2), and on a cluster, each *node* fetches one copy.

Now write `collect`, which runs one round of [**synchronous**](../docs/glossary.md#synchronous-sampling) sampling: all samplers use the same weights, and the round is over when the last sampler is done.
`collect` puts the weights into the object store once, and the samplers run at the same time.
It returns a list with a fragment of `steps` frames from each sampler, in the order of the samplers.
The check's samplers wait for one another, for at most 20 s.
"""


# %%
def collect(samplers, weights, steps):
    """Return a list with a fragment of `steps` frames from each sampler, in the order of the samplers.

    All samplers use these weights, which are put into the object store once, and they run at the same time.
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
You don't have to wait for `set_weights`: calls from one caller to one actor run in the order in which they were sent, so `sample` finds the new weights.
That doesn't hold for three kinds of actor: async ones, threaded ones, and those with `allow_out_of_order_execution=True`.
And a call that Ray retries after a failure (`max_task_retries`, Chapter 5) may run after later ones.
"""

# %% [markdown]
r"""
## Amdahl's law tells you when to stop adding samplers

Now vary the number of samplers from one to eight.
In each iteration, they collect 96 frames *in total*, so with more samplers, each one collects fewer.
Then the learner takes 30 ms (here, a sleep), which no sampler can shorten.
For such a program, [**Amdahl's law**](../docs/glossary.md#amdahls-law) says

$$\text{seconds}(n) = \text{serial} + \frac{\text{parallel}}{n}.$$

**Predict:** one sampler takes $96 \cdot 2 \cdot 2.5\,$ms $= 480$ ms for the frames, and the learner takes 30 ms.
How many times as fast is an iteration with eight samplers?
"""

# %% tags=["demo"]
predict("speedup_of_eight", ...)  # times as fast as with one sampler

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
    rounds = [[seconds_of_an_iteration(count) for count in counts] for _ in track(range(budget(15, 4)), "rounds")]
    typical = np.median(rounds, axis=0)  # so that one hiccup of the machine doesn't bend the fit
    display(measured("speedup_of_eight", typical[0] / typical[-1]))

# %% [markdown]
r"""
Without any overhead, it would be $510 / 90 \approx 5.7$ times as fast.

The law is a straight line in $1/n$, so least squares finds its two numbers.
We minimize the relative errors, so that an error of 5% counts the same for eight samplers as for one.

The **residuals** are what the law leaves unexplained: measured minus fitted seconds, in percent.
A fitted curve usually looks good; residuals show what's wrong with it.
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
    above.plot(line, 2 * FRAMES / (serial + parallel) * line, ":", color="#94a3b8", label="proportional speedup")
    above.plot(counts, 2 * FRAMES / typical, "o", color="#7c3aed", label="measured (median)")
    above.plot(counts, 2 * FRAMES / np.transpose(rounds), ".", color="#7c3aed", alpha=0.3)
    above.set(ylabel="environment steps per second", title="Each additional sampler adds less than the one before")
    above.legend()
    below.axhline(0, color="#059669")
    below.plot(counts, 100 * (np.transpose(rounds) / fitted[:, None] - 1), ".", color="#7c3aed", alpha=0.3)
    below.stem(counts, residuals, linefmt="#7c3aed", basefmt=" ")
    limit = 10 + 2 * np.abs(residuals).max()  # a hiccup may lie outside
    below.set(xlabel="samplers", ylabel="residual (%)", ylim=(-limit, limit));

# %% [markdown]
r"""
You built this program, so you know the truth: 480 ms parallel and 30 ms serial.
Whatever serial time the fit found beyond those 30 ms is the overhead of distribution: sending weights, making calls, fetching results, and waiting for the last sampler.
The parallel 480 ms grows, too, because a sleep may take longer than requested.

If the residuals of the medians (the large markers) scatter around zero without a pattern, what's left is noise.
If they form a *pattern*, such as high, low, high, a cost that isn't in the law grows with every sampler, and the fit is too optimistic beyond your last point.

These samplers sleep, so eight fit on two cores.
Samplers that compute would follow the law only up to the number of cores.
On a cluster, that number is larger, but the learner's 30 ms remain.
"""

# %%
### BEGIN SOLUTION
amdahls_limit = "c"
### END SOLUTION

# %%
quiz("amdahls_limit", amdahls_limit)

# %% [markdown] tags=["notes"]
r"""
This is the halfway point.
Collect the fitted serial milliseconds from the room: they vary between machines, and all of them should be above 30.
Ask what each pair would do next: add samplers, or make the learner faster?
"""

# %% [markdown]
r"""
## Synchronous sampling runs at the pace of the slowest sampler

So far, all of our samplers have been alike.
Real ones aren't: one machine is older, or one level of the game is harder.
Now take four samplers, and make each step of the last one's environments take three times as long.
The code stops the other four samplers to make room.
"""

# %% tags=["demo"]
if passed("Sampler") and passed("collect"):
    for spare in samplers[4:]:
        ray.kill(spare)
    straggler = sampler_actor.remote(partial(carts, 2, seconds=0.0075), leans, 8)
    crew = [*samplers[:3], straggler]
    collect(crew, weights, 1)  # warm-up
    start = time.perf_counter()
    with recorded() as synchronous:
        for _ in range(4):
            collect(crew, weights, 20)
    sync_speed = 16 / (time.perf_counter() - start)
    timeline(synchronous).set_title(f"Synchronous: {sync_speed:.1f} fragments per second");

# %% [markdown]
r"""
The timeline shows three rows of short bars separated by long gaps, and one row of long bars, the [straggler](../docs/glossary.md#straggler)'s.
If the three fast samplers never had to wait, they'd deliver three times as many fragments.
"""

# %%
### BEGIN SOLUTION
who_waits = "b"
### END SOLUTION

# %%
quiz("who_waits", who_waits)

# %% [markdown]
r"""
## Asynchronous samplers don't wait, but their experience is stale

[**Asynchronous**](../docs/glossary.md#asynchronous-sampling) sampling has no rounds: every sampler keeps collecting.
As soon as one delivers a fragment, you learn from it, give that sampler the latest weights, and start its next fragment.
It's the `bounded_map` of Chapter 1, with actors.

Now write `collect_async`:

- In your notebook, call `learn(fragment)` on `count` fragments of `steps` frames, in the order in which they arrive.
  Each call returns new weights.
- Learn first, and then start that sampler's next fragment, with the weights that `learn` returned.
- Never learn from the same fragment twice.
- Among a hundred samplers, one will die sooner or later (Chapter 5), and `ray.get` of its fragment raises `ray.exceptions.RayActorError`.
  Continue with the others.
- After `count` fragments, ignore those that are still in progress.
  A fragment that nobody uses does no harm.

The check runs three samplers: one is slow, and one dies.
If a sampler waits in vain, the check takes up to a minute.
"""


# %%
def collect_async(samplers, weights, steps, count, learn):
    """Call `learn(fragment)`, which returns new weights, on `count` fragments of `steps` frames, in the order of arrival.

    All samplers keep collecting, and each fragment is collected with the latest weights at its start. A sampler
    that dies is left out.
    """
    ### BEGIN SOLUTION
    in_progress, learned = {}, 0

    def launch(sampler, ref):
        sampler.set_weights.remote(ref)
        in_progress[sampler.sample.remote(steps)] = sampler

    ref = ray.put(weights)
    for sampler in samplers:
        launch(sampler, ref)
    while learned < count:
        (ready,), _ = ray.wait(list(in_progress), num_returns=1)
        sampler = in_progress.pop(ready)
        try:
            fragment = ray.get(ready)
        except ray.exceptions.RayActorError:
            continue  # there's no fragment, and the sampler is gone
        ref = ray.put(learn(fragment))
        learned += 1
        launch(sampler, ref)
    ### END SOLUTION


# %%
check("collect_async", collect_async)

# %% [markdown] tags=["solution"]
r"""
The dict tells you which sampler a reference belongs to, so you know which one to start again, and which one has died.
When the last sampler has died, `ray.wait([])` returns two empty lists, and unpacking the first one raises a `ValueError`, which is better than waiting forever.
The fragments in progress at the end are lost, which doesn't matter in a long run.

Ray can also restart a sampler (`max_restarts`, Chapter 5).
The new process starts with `__init__`, so its weights are gone, and you must send them again before its next `sample`.
"""

# %% [markdown]
r"""
Now collect 16 fragments asynchronously, from the same four samplers.

**Predict:** each call to `learn` makes a new version of the weights.
By the time you learn from a typical fragment, how many versions old are the weights that it was collected with?
"""

# %% tags=["demo"]
predict("age_of_the_weights", ...)  # versions

# %% tags=["demo"]
class CountingLearner:
    """Stands in for a learner: makes a new version of the weights for each fragment, and records how old the fragment's are."""

    def __init__(self):
        self.version, self.ages = 0, []

    def learn(self, fragment):
        """Return weights with the next version."""
        self.ages.append(self.version - fragment["version"])
        self.version += 1
        return weights | {"version": self.version}


if passed("Sampler") and passed("collect") and passed("collect_async"):
    start = time.perf_counter()
    with recorded() as asynchronous:
        collect_async(crew, weights, 20, 16, CountingLearner().learn)
        async_speed = 16 / (time.perf_counter() - start)
    timeline(asynchronous).set_title(f"Asynchronous: {async_speed:.1f} per second (synchronous: {sync_speed:.1f})");

# %% tags=["demo"]
if passed("Sampler") and passed("collect") and passed("collect_async"):
    counting = CountingLearner()
    collect_async(crew, weights, 10, budget(300, 80), counting.learn)
    display(measured("age_of_the_weights", np.median(counting.ages)))
    figure, axes = plt.subplots(figsize=(7, 2.8), constrained_layout=True)
    ages, fragments = np.unique(counting.ages, return_counts=True)
    axes.bar(ages, fragments, color="#7c3aed")
    axes.set(xlabel="age of the weights, in versions", ylabel="fragments")
    axes.set_title("No sampler waits, so most fragments are a little stale");

# %% [markdown]
r"""
The gaps are almost gone, and you get about twice as many fragments per second.
If you don't, another program needed the cores, so run both cells again.

But look at the ages.
While a fast sampler collects one fragment, the others deliver two or three, so its weights are two or three versions old when you learn from it.
While the straggler collects one, the others deliver seven to nine, so its bars are on the right.

In synchronous sampling with one update per round, every age is 0.
So you choose between **waiting** and [**stale experience**](../docs/glossary.md#staleness), which shows what an older policy did.
There's a second cost: the straggler delivers about one fragment in ten instead of one in four.
If it's slow because its levels are hard, your agent mostly sees easy ones.

Algorithms resolve this in different ways.
PPO (Chapter 10) collects synchronously.
IMPALA and APPO (Chapter 13) collect asynchronously, and weight each step by the ratio of the two policies' probabilities for its action, limited from above.
DQN (Chapter 9) keeps old experience on purpose.
"""

# %%
### BEGIN SOLUTION
async_price = "c"
### END SOLUTION

# %%
quiz("async_price", async_price)

# %% [markdown]
r"""
## A fragment should be no longer than it needs to be

The longer a fragment, the older the weights of its last frame.
But each fragment has a fixed overhead: making the call, packing the arrays, and fetching the result.

If you measure how long fragments of several lengths take, the points lie close to a line: $\text{seconds} = \text{overhead} + L \cdot \text{seconds per frame}$.
Then $\text{overhead} / (\text{overhead} + L \cdot \text{seconds per frame})$ is the fraction of the time that's overhead.

Write `fragment_length`, which fits the line with `np.polyfit(lengths, seconds, 1)`.
It returns the smallest number of frames, at least 1, for which at most `fraction` of the time is overhead.
`seconds[i]` is how long a fragment of `lengths[i]` frames took.
Because of noise, the fitted overhead can be 0 or less; then one frame is enough.

Try it on paper first: a call costs 10 ms, and a frame takes 1 ms.
At what length is a tenth of the time overhead?
It isn't 100.
"""


# %%
def fragment_length(lengths, seconds, fraction):
    """Return the smallest number of frames, at least 1, for which at most `fraction` of the time is overhead.

    `seconds[i]` is how long a fragment of `lengths[i]` frames took.
    """
    ### BEGIN SOLUTION
    frame, overhead = np.polyfit(lengths, seconds, 1)
    exact = (overhead / fraction - overhead) / frame
    return max(1, int(np.ceil(exact - 1e-6)))  # rounding errors don't cost a frame: 90.0000000001 is 90
    ### END SOLUTION


# %%
check("fragment_length", fragment_length)

# %% [markdown] tags=["solution"]
r"""
The overhead is a fraction of the *whole*, so $\text{overhead} = \text{fraction} \cdot (\text{overhead} + L \cdot \text{seconds per frame})$.
Solve that for $L$.
"""

# %% [markdown]
r"""
On paper, the answer is 90: of 100 ms in total, 10 are overhead.

Now measure two samplers: one with plain CartPoles, at 30 to 100 µs per frame, and one with slow ones, at 5 ms per frame.
The dashed lines show the lengths that your function chooses for 10% overhead.
"""

# %% tags=["demo"]
def seconds_by_length(sampler, lengths):
    """Return the seconds of a fragment of each length, the fastest of several: other programs can only add to them."""
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
    fast = sampler_actor.remote(partial(carts, 2), leans, 9)
    kinds = {"plain CartPoles": (fast, [1, 4, 16, 64, 256, 1024]), "slow CartPoles": (samplers[0], [1, 2, 4, 8, 16])}
    ray.get(fast.set_weights.remote(weights))
    ray.get(fast.sample.remote(1))  # warm-up
    timed = {kind: (lengths, seconds_by_length(each, lengths)) for kind, (each, lengths) in kinds.items()}

# %% tags=["demo"]
if passed("Sampler") and passed("fragment_length"):
    figure, axes = plt.subplots(figsize=(7, 3.2), constrained_layout=True)
    for (kind, (lengths, times)), color in zip(timed.items(), ["#db2777", "#7c3aed"], strict=True):
        frame, overhead = np.polyfit(lengths, times, 1)
        chosen = fragment_length(lengths, times, 0.1)
        label = f"{kind}: {1000 * overhead:.1f} ms + L · {1000 * frame:.2f} ms, so L = {chosen}"
        useful = np.minimum(frame * np.array(lengths) / times, 1)  # the fitted frame may be a little too long
        axes.semilogx(lengths, useful, "o-", color=color, label=label)
        axes.axvline(chosen, color=color, linestyle="--")
    axes.set_xticks([1, 4, 16, 64, 256, 1024], [1, 4, 16, 64, 256, 1024])
    axes.minorticks_off()
    axes.set(xlabel="frames in a fragment", ylabel="fraction of time for frames", ylim=(0, 1.05))
    axes.set_title("With a slow simulator, short fragments are long enough")
    axes.legend(frameon=False, bbox_to_anchor=(0.9, -0.2));

# %% [markdown]
r"""
The overhead of a call is about the same for both, although noise may shift the fitted one by a few milliseconds.
What differs is how much useful work there is to spread it over.
So "use longer fragments" is good advice for fast environments, but it gains little for slow ones.

In RLlib, the setting is called `rollout_fragment_length`.
With `"auto"`, RLlib divides the batch that the learner needs by the number of environments in all EnvRunners.
"""

# %% [markdown]
r"""
## Your code connects the four parts by passing references

Here's the whole program: three fast samplers, the straggler, a buffer, and a learner.
The learner's update is a sleep.
"""

# %%
@ray.remote(num_cpus=0.5)
class Buffer:
    """A rollout buffer: keeps fragments until they're taken, and then drops them."""

    def __init__(self):
        self.fragments = []

    def add(self, fragment):
        """Keep a fragment."""
        self.fragments.append(fragment)

    def take(self):
        """Return all fragments, and drop them."""
        taken, self.fragments = self.fragments, []
        return taken

# %%
@ray.remote(num_cpus=0.5)
class Learner:
    """Stands in for a learner: an update is a sleep of 50 ms."""

    def __init__(self, weights):
        self.weights = weights

    def latest(self):
        """Return the latest weights."""
        return self.weights

    def learn(self, fragments):
        """Return the version after an update with these fragments, and how many real steps they had."""
        time.sleep(0.05)
        self.weights = self.weights | {"version": self.weights["version"] + 1}
        return self.weights["version"], sum(int(fragment["real"].sum()) for fragment in fragments)

# %% [markdown]
r"""
Read the loop in the next cell: does it wait anywhere?

**Predict:** a fragment of the straggler takes more than 200 ms, and an update takes 50 ms.
How long does the loop take to *launch* four whole iterations?
"""

# %% tags=["demo"]
predict("launching", ...)  # milliseconds

# %% tags=["demo"]
if passed("Sampler") and passed("collect"):
    buffer, learner = Buffer.remote(), Learner.remote(weights)
    ray.get([buffer.take.remote(), learner.latest.remote()])
    with recorded() as program:
        start, updates = time.perf_counter(), []
        for _ in range(4):
            latest = learner.latest.remote()
            for sampler in crew:
                sampler.set_weights.remote(latest)
                buffer.add.remote(sampler.sample.remote(15))
            updates.append(learner.learn.remote(buffer.take.remote()))
        launched = time.perf_counter() - start
        print("version and steps of each update:", ray.get(updates))
    timeline(program).set_title("Sample, add, take, learn")
    display(measured("launching", 1000 * launched))

# %% [markdown]
r"""
The loop never waits, so it launches four iterations within milliseconds, long before the first fragment is done.
Ray keeps the order, because each call takes the reference that the previous one returned, and because your notebook's calls to one actor run in order: `take` runs after the four calls to `add`.

The timeline also shows what's wrong: the samplers are idle while the learner learns, and three are idle while the straggler collects.
Which of this chapter's remedies would you try first?

Your *code* handled only references, but where did the fragments go?
A result under 100 kB returns inside the reply to the process that made the call, and travels on inside the next call; a larger one stays in the object store (Chapter 1).
So count the bytes that a short fragment and a long one put there.
"""

# %% tags=["demo"]
if passed("Sampler") and passed("collect") and passed("fragment_length"):
    for frames in (15, 4000):
        before = stores()[0]["created_bytes"]
        ray.get(buffer.add.remote(fast.sample.remote(frames)))
        print(f"{frames} frames: {(stores()[0]['created_bytes'] - before) / 1000:.0f} kB put into the store")

# %% [markdown]
r"""
The short fragment never entered the store: it came to your notebook's process and left again in the message to the buffer.
A few kilobytes do no harm there.
But with hundreds of samplers, that process becomes the bottleneck, and longer fragments relieve it: they go from the sampler's node to the buffer's, and your notebook holds only their references.
Stack the columns before you return them, as your sampler does: a stacked column is one view of the store, but a list of rows needs a view for each row, and making thousands of views takes time.
"""

# %% tags=["demo"]
ray.shutdown()

# %% [markdown] tags=["notes"]
r"""
Let pairs draw the same timeline for `collect_async` with a learner actor before they read Chapter 13.
The room will ask whether the buffer is worth an actor when the learner could keep the list: with one learner, it isn't.
"""

# %% [markdown]
r"""
## What you can do now

- You can write a sampler whose fragments fit together, and compute advantages without letting rewards leak across the end of an episode.
- You can collect synchronously or asynchronously, even if a sampler is slow or dies, and you know what each costs.
- You can fit Amdahl's law, and you look at the residuals before you trust it.
- You can choose a fragment's length and a sampler's resources from measurements.

## Traps

- **`reset` at the start of a fragment** cuts episodes short; with a fixed seed, you even get the same experience over and over.
- **A single `done` flag** breaks one of GAE's two rules, unless the rewards at truncations already include $\gamma V$.
- **`~flags`** inverts only booleans; `uint8` flags become 254 and 255.
- **`set_weights` after `sample`** works, but every fragment is one version too old.
- **A restarted sampler** has lost its weights.
- **Fast samplers deliver more**, so ask what their experience leaves out.

## Read on

- [Chapter 9](ch09_dqn.ipynb): a replay buffer, and a learner that learns.
  [Chapter 10](ch10_actor_learner.ipynb): PPO with these samplers and this `gae`.
- Schulman et al., [*High-Dimensional Continuous Control Using Generalized Advantage Estimation*](https://arxiv.org/abs/1506.02438), 2016.
- Espeholt et al., [*IMPALA*](https://arxiv.org/abs/1802.01561), 2018: asynchronous sampling, and the correction for it.
- Nair et al., [*Gorila*](https://arxiv.org/abs/1507.04296), 2015: the four parts on more than a hundred machines; and Mnih et al., [*A3C*](https://arxiv.org/abs/1602.01783), 2016: parallel workers in the threads of a single machine, without a replay buffer.
- Gunther, *Guerrilla Capacity Planning*, 2007: Amdahl's law with a term that grows, for residuals with a pattern.
"""
