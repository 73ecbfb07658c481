# %% [markdown] you_learn_to="collect with many samplers, in step and out of it; GAE"
r"""
# Chapter 8 · Many play at once, and nobody has to wait for the slowest

*About 120 minutes · builds on [Chapter 2](ch02_objects.ipynb), [Chapter 3](ch03_actors.ipynb) and [Chapter 7](ch07_environments.ipynb)*

**What you will be able to do**

- name the four parts of distributed reinforcement learning, and write the one that plays as an actor;
- compute advantages from a fragment of experience that begins and ends in the middle of episodes;
- collect from many samplers, in step or as they come, and say what each costs;
- fit Amdahl's law to your own measurements, and read from the residuals whether to believe it;
- tune what moves between the parts: resources, lengths, transfers, arrays.
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
from coursekit.records import actors, stores

begin("ch08_rollouts")

# %%
ray.init(num_cpus=4, include_dashboard=False)

# %% [markdown] tags=["notes"]
r"""
Two hours with all five exercises; ninety minutes when `fragment_length` and the section on advice are left to read.
`gae` takes longer than its minutes say in most rooms: give it a whiteboard, and let pairs compute the hand-made cases of its check first.
Run the two cells above before you begin to speak.
"""

# %% [markdown]
r"""
## Distributed reinforcement learning has four parts

Chapter 7 played in one process.
What a program does that learns from many has four parts, whatever the algorithm:

![Samplers, each with environments and a copy of the agent, send fragments of experience to a buffer; the learner takes batches from it and puts new weights into the object store, from where every sampler reads them](../img/ch08_parts.svg)

- The **environment** is stepped: observations and rewards come out.
- The **agent** chooses the actions.
  It is a policy with weights, and there is a copy of it wherever somebody plays.
- The **buffer** keeps experience until it is learned from.
  A *rollout buffer* is emptied after every update, since its experience belongs to the policy that made it.
  A *replay buffer* keeps it, and the same step is learned from many times (chapter 9).
- The **learner** computes new weights.

Each of them can be an actor.
By the end of this chapter each is one, and your notebook only tells them who talks to whom.
Environment and agent belong together; such an actor is called a **sampler** here.
(RLlib says *EnvRunner*; older texts say *rollout worker*.)
"""

# %% [markdown]
r"""
## Environment and agent belong into one process

Why together?
Take them apart: two CartPoles in an actor of their own, the agent in your notebook.
Every step is then a remote call.
Our agent is a line of NumPy: it pushes to the side to which the pole will lean.
(`carts(2)` is a `SyncVectorEnv` of two CartPoles.)

**Predict:** a step of both carts takes some 30 µs in a loop.
How long does it take when each step is a remote call?
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
    """Choose and step so many times."""
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
A millisecond or so instead of some tens of microseconds: you pay the price of a call (chapter 3) for every step.
A sampler pays it once for a whole **fragment** of steps.
When the agent is a large network on a GPU, people do take the two apart and send the observations of hundreds of environments in one message; the rule behind both is the same: *few and large messages*.
"""

# %% [markdown]
r"""
## A fragment is not an episode

Write the sampler.
It owns a vector environment (chapter 7), which resets itself, and plays a fixed number of *frames* at each call, whatever the episodes do meanwhile: the fragment may begin and end in the middle of an episode.
That keeps all messages equally long.

![Two environments play three fragments of six frames; episodes run across the borders of fragments; the frame after the end of an episode is a reset and is not real](../img/ch08_fragments.svg)

With $T$ frames of $N$ environments, a fragment is a dict of arrays:

| key | shape | |
|---|---|---|
| `obs` | [T, N, …] | what the policy saw when it chose the action |
| `actions`, `rewards`, `terminated`, `truncated` | [T, N] | what it did, and what came of it |
| `real` | [T, N] | False in the frame after an end, which is only a reset (chapter 7) |
| `last_obs` | [N, …] | what the next frame will begin with |
| `version` | a number | `weights["version"]` of the weights that played |

The seam between two fragments must not show.
The next fragment goes on where this one stopped; the seed is used once; and when an episode ends in the last frame, the first frame of the *next* fragment is the reset.
New weights count from the next call of `sample` on; the first ones always come before the first `sample`.

It is an ordinary class, so the check (and you) can try it without Ray: `sampler = Sampler(partial(carts, 2), leans, seed=0)`.
"""


# %%
class Sampler:
    """Plays in some environments, with the weights that it was given last."""

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
All that must survive the end of `sample` stands in the object: the observation and `over`.
People who keep `over` in a local variable count one reset as experience for each episode that ends with a fragment, which is rare enough to be found by nobody.
The rows of `SyncVectorEnv` are copies, so it is safe to keep them; an environment that writes into the same array again needs `obs.copy()`.
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

Learning wants to know how much better than expected each step went: its **advantage**.
Somebody expects something, namely a network $V(s)$ that estimates the return from $s$ on.
The surprise of one step is

$$\delta_t = r_t + \gamma V(s_{t+1}) - V(s_t):$$

what it brought, and what is expected after it, less what had been expected before.
**Generalised advantage estimation** (GAE, Schulman et al. 2016, equation 16) adds up the surprises of this step and of those after it, further ones counting less:

$$\hat A_t = \delta_t + \gamma\lambda\,\delta_{t+1} + (\gamma\lambda)^2\,\delta_{t+2} + \dots = \delta_t + \gamma\lambda\,\hat A_{t+1}.$$

With $\lambda = 0$ only the step's own surprise counts, which trusts $V$ entirely.
With $\lambda = 1$ the $V$ in between cancel, and what is left is the discounted return of chapter 7 less $V(s_t)$, which trusts nothing but rewards, and is noisy.

Two rules at the ends, and most programs that do not learn break one of them:

- **Terminated** at $t$: nothing follows, so $V(s_{t+1})$ counts as 0.
  **Truncated**: it would have gone on, so $V(s_{t+1})$ counts.
- **Both** end the sum: the next row belongs to another episode.
  (It is the reset, in fact.
  The reset's own row gets an advantage like any other, which means nothing: whoever learns leaves it out.)

Behind the last row there is no other: the sum stops, and $V(s_T)$ is the value of `last_obs`.
In the mode next step of chapter 7 the observation after a truncated end is the true last one, so `values[t + 1]` is right there as it stands.

**Predict**, with paper and pencil: rewards 1, 1, 1, all values 0, $\gamma = 0.5$, $\lambda = 1$.
And if the episode was terminated after the second step?
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
1.75, 1.5, 1; and 1.5, 1, 1 with an end after the second step.
One loop over time serves all environments, because `rewards[t]` is a row of $N$.
A program that has only one flag `done` must choose which of the two rules it breaks.
`real` takes the rows of resets out before anybody learns.
"""

# %% [markdown]
r"""
Look at it.
One environment, rewards of 1, a network that expects 10 in every state.
At step 20 the episode is terminated, at step 40 truncated.

**Predict:** where do the curves jump, and in which direction?
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
With larger $\lambda$ the steps before it learn that it was coming, and the more so the closer they are.
At the truncated end nothing bad happens: the network's 10 stands for the future.
And nothing at all crosses a dashed line from right to left.
"""

# %% [markdown]
r"""
## Say what a sampler needs, and Ray starts no more than fit

Next come eight samplers, perhaps on two cores.
Will they not get into each other's way?
Chapter 3 said: actors that wait, as many as you like; actors that compute, as many as cores.
So measure which kind you have: the share of its time in which a sampler keeps a core busy.
Its environments nap 2.5 ms in each step, as if a simulator ran elsewhere; with `busy=True` they compute for 2.5 ms, as one that runs here.

**Predict** both shares.
"""

# %%
slow_carts = partial(carts, 2, seconds=0.0025)


def share_of_a_core(make_envs, steps=100):
    """Return which share of the time a sampler of these environments keeps a core busy."""
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
That is the number for `num_cpus`.
By default an actor names no CPU at all while it runs, and Ray believes that the machine is idle however many you start.
Name what they need, and Ray places no more than fit.
(On a machine under load, the second share is what the load leaves over.)
Ours need a few per cent; we say 0.5, so that eight fill the four CPUs of this Ray.
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
The ninth waits: there is no room, and it takes nothing from the others.
(A sampler that named nothing would have started.)
"""

# %% [markdown]
r"""
## One copy of the weights serves all samplers

Before each fragment, samplers want the newest weights.
Ours are four numbers; those of a real network are megabytes, so here is some ballast: 8 MB.
There are two ways to send them to eight samplers, and Ray's records count how much is put into the store.

**Predict:** how many megabytes go into the store, and how many times as long does one way take as the other?
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

# %% tags=["demo"]
if passed("Sampler"):
    comparison = compare_times({"by reference": by_reference, "by value": by_value}, repeats=budget(15, 7))
    comparison.plot()
    display(comparison)

# %% [markdown]
r"""
A copy for each of them against one for all: the samplers of a node map the same memory (chapter 2).
On a cluster each *node* fetches one copy, from whichever node has one.
With four numbers it would make no difference.

Put the pieces together.
`collect` is one **synchronous** round: everybody plays with the same weights, and the round is over when the last one is done.
The check's samplers wait for each other, for 20 s at most, and count what arrives.
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
Nobody waits for `set_weights`: an actor runs the calls of one caller in the order in which they were sent, so `sample` finds the new weights.
(An async or threaded actor gives no such promise.)
"""

# %% [markdown]
r"""
## Amdahl's law says when to stop adding samplers

Now with one, two, up to eight samplers.
In each iteration they play 96 frames *together*, so each plays fewer when there are more; then comes a learner, which needs 30 ms (a nap, for once) and no sampler can help it.
**Amdahl's law** says of such a program

$$\text{seconds}(n) = \text{serial} + \frac{\text{parallel}}{n}.$$

**Predict:** one sampler needs $96 \cdot 2 \cdot 2.5\,$ms $= 480$ ms to play.
How many times as fast is the whole iteration with eight?
"""

# %% tags=["demo"]
FRAMES, counts = 96, [1, 2, 3, 4, 6, 8]


def seconds_of_an_iteration(count):
    """Return the seconds of one iteration with so many samplers."""
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
We divide each equation by its measured seconds: then an error of 5 % counts the same for eight samplers as for one, where 5 % are many more milliseconds.

The **residuals** are what the law leaves unexplained: measured against fitted, in per cent.
Always plot them.
A curve through points looks good nearly always; residuals show what is wrong with it.
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
First the two numbers.
You know the truth, since you built it: 480 ms parallel, 30 ms serial.
What the fit found beyond the 30 is the price of distribution: sending weights, calling, fetching, waiting for the last.
(The 480 grow a little as well: no nap is shorter than asked for, and on a Mac or a busy machine many are longer.)

Then the residuals: the large points are those of the medians, which were fitted, the pale ones those of the single rounds.
If they lie around zero in no order, the law explains what can be explained, and the rest is chance: smaller than the spread of the pale points.
If they are larger and form a *pattern*, such as high, low, high, then something is going on that the law does not know: a cost that grows with every sampler (more calls to make, more processes than cores).
Then the fit is too optimistic beyond your last point, and there may be a number of samplers from which on it gets *slower*.
Which of the two do you see?

What is simulated here is the step.
These samplers nap, so eight of them fit on two cores.
Samplers that compute would follow the law up to the number of cores, and leave it there with a kink.
On a cluster the kink comes later; the learner's 30 ms come as early as here.
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
Collect the fitted serial milliseconds from the room: they differ by the machine, and nobody has 30.
Ask what each would do next: more samplers, or a faster learner?
"""

# %% [markdown]
r"""
## In step, everybody is as slow as the slowest

So far all samplers were alike.
Real ones are not: one machine is older, one level of the game is harder.
Four samplers now, and the environments of the last one take three times as long for a step.
(The other four end, which makes room.)

**Predict:** what do the other three do most of the time?
And how many fragments a second could there be?
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
Three rows of short bars with long gaps.
If nobody waited, the three would make three times as many.

**Asynchronous** collection has no rounds.
Every sampler always plays; whoever hands in a fragment is learned from at once, gets the newest weights, and is sent off again.
This is `bounded_map` of chapter 1 with actors.

`learn(fragment)` is called in your notebook for `count` fragments, in the order in which they come, and returns new weights.
First learn, then send that sampler off with what `learn` returned.
Its fragments are new experience each time; hand none in twice.

And be prepared for one more thing.
With a hundred samplers somebody dies every day (chapter 5): `ray.get` of its fragment then raises `ray.exceptions.RayActorError`.
Go on with those that are left.

When `count` fragments have been learned from you are done: what is still under way then may be left alone.

The check has three samplers.
One of them hands in its first fragment only when you have learned from three others, or when 20 s have passed.
Another one is killed over its first, when you have learned from six.
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
            continue  # nothing came, and nobody is left to send off
        ref = ray.put(learn(fragment))
        learned += 1
        send_off(sampler, ref)
    ### END SOLUTION


# %%
check("collect_async", collect_async)

# %% [markdown] tags=["solution"]
r"""
A dict keeps the order in which things were put in, so `list(playing)` has the sampler that was sent off first in front, and `ray.wait` prefers it when several are ready: nobody starves.
When the last sampler dies, `ray.wait([])` returns two empty lists, and unpacking the one that should be ready raises a `ValueError`, which is better than waiting for ever.
The fragments that are under way at the end are thrown away; with a long run that does not matter.
"""

# %% [markdown]
r"""
**Predict:** the same four samplers, the same number of fragments.
What does the picture look like?
And how old, counted in versions, are the weights of a fragment by the time it is learned from?
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
    axes.set(xlabel="versions that the weights had become old", ylabel="fragments")
    axes.set_title("Nobody waits, so everybody is a little late");

# %% [markdown]
r"""
Hardly a gap, and about twice as many fragments; that was the straggler's price in step.
But look at the ages.
While a quick sampler plays, the other quick ones hand in something too, and now and then the straggler, so its weights are two or three versions old when its turn comes.
The straggler's are up to three times as old: the bars on the right are its fragments.
(The youngest ages come from the start.)

In step with one update a round every age is 0.
So the choice is between **waiting** and **stale experience**: what a fragment shows is what an older policy did.
There is a second price that nobody sees in such a plot: the straggler delivers about one fragment in ten instead of one in four.
If it is slow because its levels are hard, your agent mostly sees easy ones.

Algorithms answer in different ways.
PPO (chapter 10) collects in step.
IMPALA and APPO (chapter 13) collect as they come, and weigh each step with the ratio of the new policy to the old one.
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

The age of the weights also grows with the length of a fragment: its last frame is played with weights from before its first.
So short fragments are fresh.
But each has its price: the call, the packing, the fetching.
How short can it be?

Measure how long fragments of several lengths take.
The points lie near a line: $\text{seconds} = \text{price} + L \cdot \text{seconds of a frame}$.
Then $\text{price} / (\text{price} + L \cdot \text{seconds of a frame})$ is the share of the time that is overhead; you say how much of that you bear.

Fit the line with `np.polyfit(lengths, seconds, 1)`.
By chance the price can come out as nothing or less; then one frame is enough.

**Predict**, with paper and pencil: a call costs 10 ms, a frame 1 ms.
Which length wastes a tenth?
(Not 100.)
"""


# %%
def fragment_length(lengths, seconds, share):
    """Return the smallest whole number of frames of which at most `share` of the time is overhead, at least 1.

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
90: of 100 ms in all, 10 are overhead.
(100 frames would be 10 ms of 110.)
Overhead is a share of the *whole*, so $\text{price} = \text{share} \cdot (\text{price} + L \cdot \text{frame})$; solve for $L$.
"""

# %% [markdown]
r"""
Now measure two samplers: one with plain CartPoles, some 30 µs a frame, and one with slow ones, 5 ms a frame.

**Predict** for both: how long must a fragment be, so that at most a tenth is overhead?
"""

# %% tags=["demo"]
def seconds_by_length(sampler, lengths):
    """Return the median seconds of a fragment of each length."""
    sampler.set_weights.remote(weights)
    found = []
    for length in lengths:
        times = []
        for _ in range(budget(21, 7)):
            start = time.perf_counter()
            ray.get(sampler.sample.remote(length))
            times.append(time.perf_counter() - start)
        found.append(np.median(times))
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
        axes.semilogx(lengths, frame * np.array(lengths) / times, "o-", color=colour, label=label)
        axes.axvline(chosen, color=colour, linestyle="--")
    axes.set_xticks([1, 4, 16, 64, 256, 1024], [1, 4, 16, 64, 256, 1024])
    axes.minorticks_off()
    axes.set(xlabel="frames in a fragment", ylabel="share of time spent playing", ylim=(0, 1.05))
    axes.set_title("Slow simulators can afford short fragments")
    axes.legend(frameon=False, bbox_to_anchor=(0.9, -0.2));

# %% [markdown]
r"""
The price of a call is about the same for both; what differs is how much playing there is to pay it with.
So "use longer fragments" is good advice for fast environments, and makes no difference for slow ones.
(The dashed lines are your answers.
The fit weighs all lengths alike, so on a busy machine the price of the quick one comes out a little high or low.)

In RLlib the setting is called `rollout_fragment_length`, and `"auto"` derives it from the batch that the learner wants.
"""

# %% [markdown]
r"""
## Few and large messages, and arrays in them

Two pieces of advice are left, both about what is in a message.
Here is a buffer, the third of the four parts, as an actor.
It gets 300 rows: one call for each row, or one call for all.

**Predict** the ratio.
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

# %% tags=["demo"]
buffer = Buffer.remote()
obs = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
rows = [{"obs": row, "action": 1, "reward": 1.0} for row in obs]
columns = {"obs": obs, "actions": np.ones(300, int), "rewards": np.ones(300)}
ways = {
    "one call": lambda: ray.get([buffer.add.remote(columns), buffer.take.remote()]),
    "a call for each row": lambda: ray.get([*[buffer.add.remote(row) for row in rows], buffer.take.remote()]),
}
compare_times(ways, repeats=budget(15, 7))

# %% [markdown]
r"""
And in one call, what should the fragment be made of?
Pictures now: 200 of 84 × 84 pixels, the size that agents for Atari's games see.
As one array, as a list of 200 arrays, and as lists of numbers: what does it cost to put them into the store and get them out again?

**Predict** the order, and the two factors.
"""

# %% tags=["demo"]
pictures = np.random.default_rng(0).integers(0, 255, size=(200, 84, 84), dtype=np.uint8)
forms = {"one array": pictures, "200 arrays": list(pictures), "lists of numbers": pictures.tolist()}
comparison = compare_times(
    {name: lambda form=form: ray.get(ray.put(form)) for name, form in forms.items()}, repeats=budget(15, 5)
)
print("may the reader write into its array?", ray.get(ray.put(pictures)).flags.writeable)
comparison

# %% [markdown]
r"""
One array is written to the store once and read where it lies (**zero-copy**, chapter 2); a list of arrays is unpacked array by array; lists of numbers are packed and unpacked number by number, all 1.4 million of them.
That is why a sampler stacks its columns before it sends them.
The price of zero-copy is that the array is read-only: a learner that wants to normalise in place makes a copy first.

> **You may have seen** that Ray serialises with *Apache Arrow*, and calls its store *Plasma*.
> The store is now a part of Ray itself, and objects are packed with pickle's protocol 5, which leaves the memory of arrays out of the pickle, to the same effect.
> Arrow is what Ray *Data* stores its tables in (chapter 17).
> You may also have seen `RolloutWorker`, `num_workers` and `SampleBatch`: RLlib's samplers are now `EnvRunner`, their number is `num_env_runners`, and they return episodes.
"""

# %% [markdown]
r"""
## Four parts, and the notebook only passes on references

Here is all of it: three samplers and the straggler, a buffer, a learner.
The learner's update is a nap, since learning comes in chapters 9 and 10.
Read the loop: who waits in it?

**Predict:** how long does this cell take to *launch* four whole iterations?
And how much experience passes through your notebook?
"""

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

# %% tags=["demo"]
if passed("Sampler") and passed("collect"):
    learner = Learner.remote(weights)
    ray.get(learner.newest.remote())
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
Nobody waits in the loop: it launches four iterations in some milliseconds, and Ray keeps the order, because each call takes the reference that the one before it returns.
(Your notebook's calls to one actor run in the order in which it made them: `take` comes after the four `add`.)
Fragments go from sampler to buffer to learner through the object store, and the weights back.
What passes through your notebook are references, and at the end four pairs of numbers.

The picture also shows what is wrong with this program: the samplers rest while the learner learns, and three of them while the straggler plays.
Which of the remedies of this chapter would you take first?
"""

# %% tags=["demo"]
ray.shutdown()

# %% [markdown] tags=["notes"]
r"""
Let pairs draw the same timeline for `collect_async` with a learner that is an actor, before they read chapter 13.
The question that the room asks is whether the buffer is worth an actor at all when the learner could keep the list: for one learner it is not.
"""

# %% [markdown]
r"""
## What you can do now

- You write a sampler whose fragments fit together without a seam.
- You compute advantages, and no reward leaks across the end of an episode.
- You collect in step or as samplers hand in, also when one of them is slow or dies, and you know the price of each: waiting, or stale experience.
- You fit Amdahl's law, and look at the residuals before you believe it.
- You choose the length of a fragment from two measurements, name resources from a third, and send arrays.

## Traps

- **`reset` at the start of a fragment** breaks episodes off; with a fixed seed, it even plays the same experience again and again.
- **The reset frame at a seam**: the episode ended in the last fragment, the reset is in this one.
- **One flag `done`** makes either the bootstrap or the sum wrong.
- **`set_weights` after `sample`** works, and everything is one version too old.
- **The quick samplers speak more often** in asynchronous collection.
  Look at what they do *not* show.
- **Actors name no CPU** while they run, unless you say so: Ray starts however many you ask for.
- **A good-looking fit** is no evidence.
  Residuals are.

## Read on

- [Chapter 9](ch09_dqn.ipynb): a replay buffer, and a learner that learns.
  [Chapter 10](ch10_actor_learner.ipynb): PPO with these samplers and this `gae`.
- Schulman et al., [*High-Dimensional Continuous Control Using Generalized Advantage Estimation*](https://arxiv.org/abs/1506.02438), 2016.
- Espeholt et al., [*IMPALA*](https://arxiv.org/abs/1802.01561), 2018: samplers that never wait, and the correction for it.
- Mnih et al., [*Asynchronous Methods for Deep Reinforcement Learning*](https://arxiv.org/abs/1602.01783), 2016; Nair et al., [*Gorila*](https://arxiv.org/abs/1507.04296), 2015: the four parts, spread over more than a hundred machines.
- Gunther, *Guerrilla Capacity Planning*, 2007: the law with a term that grows, for residuals with a pattern.
"""
