"""The judge's side of chapter 8."""

import math
from typing import Any

import numpy as np
from numpy.random import Generator

from coursekit.answer import Answer, Watched
from coursekit.exercise import agree, exercise, expect, expect_close, expect_equal, quiz
from coursekit.given import ch08_rollouts as given

COLUMNS = ("obs", "actions", "rewards", "terminated", "truncated", "real")
KEYS = [*COLUMNS, "last_obs", "version"]


@exercise(
    points=3,
    minutes=15,
    hints=[
        "Which two things must the object remember from one fragment to the next, so that nobody sees the seam?",
        "A frame is a reset when the frame *before* it ended an episode, also when that one was in the last fragment.",
        "Append the six values of each frame to six lists, `np.stack` each list at the end; `last_obs` is what the next frame would begin with.",
    ],
)
def Sampler(answer: Answer, rng: Generator) -> None:
    """Keep the last observation and who has just ended in the object: a fragment goes on where the one before it stopped."""
    steps, seed = int(rng.integers(5, 8)), int(rng.integers(10, 10_000))
    scripts = [
        [{"length": steps, "truncated": False}],  # ends with the last frame of the first fragment: reset in the second
        [{"length": 2, "truncated": True}, {"length": 3, "truncated": False}],
        [{"length": int(rng.integers(30, 40)), "truncated": False}],  # goes on all the time
    ]
    old: dict[str, Any] = {"version": int(rng.integers(1, 50)), "w": rng.integers(1, 4, size=3)}
    new: dict[str, Any] = {"version": old["version"] + int(rng.integers(1, 9)), "w": old["w"] + [0, 0, 1]}
    parts: list[list] = [[old, steps], [new, steps + 1], [None, 4]]
    fragments = answer.probe(given.play_fragments, scripts, parts, seed)
    wanted = _fragments(scripts, parts, seed)
    for number, fragment in enumerate(fragments):
        _expect_form(fragment, parts[number][1], len(scripts), _told(number, parts))
    start, named = fragments[0]["obs"][0], wanted[0]["obs"][0, :, :2]  # the seed and the episode of each
    expect_close(start[:, :2], named, f"The first frame observed {_rows(start)}: reset with the seed, once.")
    for number, (fragment, want) in enumerate(zip(fragments, wanted, strict=True)):
        _expect_frames(fragment, want, _told(number, parts), parts, number)


def _told(number: int, parts: list) -> str:
    return f"Three environments, fragment {number + 1} of {parts[number][1]} frames: "


def _expect_form(fragment: Any, steps: int, envs: int, told: str) -> None:
    expect(isinstance(fragment, dict), told + f"`sample` returned a {fragment}, not a dict.")
    expect_equal(sorted(fragment), sorted(KEYS), told + f"the keys are {sorted(fragment)}.")
    for key in [*COLUMNS, "last_obs"]:
        array = isinstance(fragment[key], np.ndarray)
        expect(array, told + f"`{key}` is of type {fragment[key]}. A fragment is a dict of arrays of numbers.")
    for key in COLUMNS:
        shape = np.shape(fragment[key])
        want = (steps, envs, 3) if key == "obs" else (steps, envs)
        expect(shape == want, told + f"`{key}` has the shape {shape}; a row for each frame makes {want}.")
    expect(
        np.shape(fragment["last_obs"]) == (envs, 3),
        told + f"`last_obs` has the shape {np.shape(fragment['last_obs'])}.",
    )


def _expect_frames(fragment: dict, want: dict, told: str, parts: list, number: int) -> None:
    """Compare one fragment with what happened; each message knows the mistakes that people make there."""
    if number:
        seam = f"the first frame observed {_rows(fragment['obs'][0])}, the fragment before had stopped at "
        stopped = _rows(want["obs"][0])
        expect_close(
            fragment["obs"][0], want["obs"][0], told + seam + f"{stopped}. A fragment is not an episode: go on."
        )
    for frame, (mine, right) in enumerate(zip(fragment["obs"], want["obs"], strict=True)):
        text = f"row {frame} of `obs` is {_rows(mine)}. It must be what the policy saw when it chose the action of that row."
        expect_close(mine, right, told + text)
    expect(
        fragment["version"] == want["version"],
        told + f"`version` came out as {fragment['version']}: whose weights played?",
    )
    real = want["real"]
    if not agree(fragment["actions"][real], want["actions"][real]):
        before = parts[0][0] if number else None
        stale = before and agree(fragment["actions"][real], given.chooses(before, want["obs"])[real])
        text = "the actions are those of the *old* weights." if stale else "the actions are not the policy's."
        expect(False, told + text)
    for key in ("rewards", "terminated", "truncated"):
        expect_close(fragment[key][real], want[key][real], told + f"`{key}` is not what the environments said.")
    _expect_real(fragment["real"].astype(bool), want, told)
    last = fragment["last_obs"]
    expect_close(last, want["last_obs"], told + f"`last_obs` is {_rows(last)}. What would the next frame begin with?")


def _expect_real(mine: np.ndarray, want: dict, told: str) -> None:
    for frame, env in zip(*np.nonzero(mine != want["real"]), strict=True):
        episode, clock = want["obs"][frame, env, 1:].astype(int).tolist()
        where = f"frame {frame} of environment {env} begins at step {clock} of episode {episode} and is "
        if want["real"][frame, env]:
            expect(False, told + where + "not marked as real, though its action counted.")
        lost = " The episode had ended in the fragment before." if frame == 0 else ""
        expect(False, told + where + f"marked as real. It is the reset: the action was ignored.{lost}")


def _rows(obs: Any) -> str:
    return str(np.asarray(obs).astype(int).tolist())


def _fragments(scripts: list[list[dict]], parts: list, seed: int) -> list[dict]:
    """Return what happens to scripted environments that reset themselves in a frame of its own."""
    states = [{"episode": 0, "clock": 0, "over": False} for _ in scripts]
    fragments: list[dict] = []
    weights: dict = {}
    for given_weights, steps in parts:
        weights = given_weights or weights
        frames = [
            [_frame(i, script, states[i], weights, seed) for i, script in enumerate(scripts)] for _ in range(steps)
        ]
        fragment = {key: np.array([[env[key] for env in frame] for frame in frames]) for key in COLUMNS}
        last = np.array([[seed + i, state["episode"], state["clock"]] for i, state in enumerate(states)])
        fragments.append(fragment | {"last_obs": last, "version": weights["version"]})
    return fragments


def _frame(env: int, script: list[dict], state: dict, weights: dict, seed: int) -> dict:
    """Return the next frame of one environment, and move its state on."""
    obs = [seed + env, state["episode"], state["clock"]]
    action, real = int(given.chooses(weights, np.array(obs))), not state["over"]
    if real:
        part, state["clock"] = script[state["episode"] % len(script)], state["clock"] + 1
        over = state["over"] = state["clock"] == part["length"]
        ends = [over and not part["truncated"], over and part["truncated"]]
        reward = 10.0 * action + state["clock"]
    else:
        state["episode"], state["clock"], state["over"] = state["episode"] + 1, 0, False
        ends, reward = [False, False], 0.0
    return dict(zip(COLUMNS, [obs, action, reward, *ends, real], strict=True))


@exercise(
    points=3,
    minutes=20,
    hints=[
        "Walk backwards, as in chapter 7: `later` is the advantage of the step after this one, 0 behind the last row.",
        "One line for δ: what counts as V(s_{t+1}) after `terminated`? One line for the sum: which ends does it stop at?",
        "`~terminated[t]` is 1 where the episode was not terminated and 0 where it was, for all environments at once.",
    ],
)
def gae(answer: Answer, rng: Generator) -> None:
    """Walk backwards; `terminated` alone takes V(s') away, and both kinds of end cut the sum."""
    for case in HAND:
        _expect_case(answer, **case)
    steps, envs = int(rng.integers(8, 13)), int(rng.integers(3, 6))
    rewards, values = rng.normal(size=(steps, envs)), rng.normal(size=(steps + 1, envs))
    ends = rng.random((steps, envs))
    terminated, truncated = ends < 0.15, ends > 0.85
    terminated[steps // 2, 0], truncated[steps // 2, :2], terminated[steps // 2, 1] = True, [False, True], False
    gamma, lam = float(rng.uniform(0.5, 0.95)), float(rng.uniform(0.3, 0.9))
    _expect_properties(answer, [rewards, values, terminated, truncated, gamma, lam], steps // 2)
    told = f"Random numbers, T = {steps}, N = {envs}, "
    got = _quietly(answer, rewards, values, terminated, truncated, gamma, lam)
    want = _advantages(rewards, values, terminated, truncated, gamma, lam)
    expect_close(got, want, told + f"γ = {gamma:.2f}, λ = {lam:.2f}: {_where(got, want)}")
    got = _quietly(answer, rewards, values, terminated, truncated)
    want = _advantages(rewards, values, terminated, truncated, 0.99, 0.95)
    expect_close(got, want, told + f"with the default γ and λ: {_where(got, want)}")


HAND: list[dict[str, Any]] = [
    {"want": [1.75, 1.5, 1], "look": "With λ = 1 and values of 0 these are the discounted returns of chapter 7."},
    {"lam": 0.0, "values": [1, 2, 3, 4], "want": [1, 0.5, 0], "look": "With λ = 0 each is its own δ alone."},
    {"lam": 0.5, "want": [1.3125, 1.25, 1], "look": "How much does a surprise one step later count?"},
    {"values": [0, 0, 0, 8], "want": [2.75, 3.5, 5], "look": "The last row of `values` is the worth of what follows."},
    {
        "values": [0, 0, 4, 8],
        "terminated": 1,
        "want": [1.5, 1, 1],
        "look": "Which two things does `terminated` change?",
    },
    {
        "values": [0, 0, 4, 8],
        "truncated": 1,
        "want": [2.5, 3, 1],
        "look": "Which of the two rules holds at a truncated end?",
    },
]  # by hand: rewards 1, 1, 1, one environment, γ = 0.5; λ = 1, values 0 and no end, unless said otherwise


def _expect_case(
    answer: Answer, want: list, look: str, lam: float = 1.0, values: Any = (0, 0, 0, 0), **ends: int
) -> None:
    flags = {name: np.zeros((3, 1), bool) for name in ("terminated", "truncated")}
    for name, step in ends.items():
        flags[name][step] = True
    said = "".join(f", {name} at t = {step}" for name, step in ends.items()) or ", no end"
    told = f"Rewards 1, 1, 1, values {', '.join(map(str, values))}, γ = 0.5, λ = {lam:g}{said}"
    ends_of = [flags["terminated"], flags["truncated"]]
    got = _quietly(answer, np.ones((3, 1)), np.array(values, float)[:, None], *ends_of, 0.5, lam)
    expect(np.shape(got) == (3, 1), f"{told}: the shape of the result is {np.shape(got)}, that of the rewards (3, 1).")
    shown = ", ".join(f"{value:g}" for value in np.ravel(got))
    expect_close(np.ravel(got), np.array(want, float), f"{told}: the advantages came out as {shown}. {look}")


def _expect_properties(answer: Answer, inputs: list, middle: int) -> None:
    """Refuse what leaks: column 0 is terminated in the middle, column 1 truncated."""
    rewards, values = inputs[:2]
    plain = _quietly(answer, *inputs)
    expect(
        plain.shape == rewards.shape, f"For rewards of shape {rewards.shape} the result has the shape {plain.shape}."
    )
    other = rewards.copy()
    other[middle + 1 :] += 7
    leak = _quietly(answer, other, *inputs[1:]) - plain
    for column, name in enumerate(("terminated", "truncated")):
        told = f"An episode is {name} at t = {middle}; larger rewards *after* that changed the advantages up to it"
        expect(np.allclose(leak[: middle + 1, column], 0), f"{told}: something leaks across the end.")
    other = values.copy()
    other[middle + 1] += 7
    change = _quietly(answer, rewards, other, *inputs[2:])[middle] - plain[middle]
    told = f"The values after t = {middle} were raised by 7, and the advantage of t = {middle} in environment"
    expect(np.isclose(change[0], 0), f"{told} 0 changed, though its episode was terminated there.")
    moved = f"{told} 1 moved by {change[1]:.3g}. That one was only truncated there (environment 0 was terminated)."
    expect(np.isclose(change[1], 7 * inputs[4]), moved)
    other = rewards.copy()
    other[:, 2] += 7
    expect(
        np.allclose(_quietly(answer, other, *inputs[1:])[:, :2], plain[:, :2]),
        "Other rewards in one environment changed the advantages of another one.",
    )


def _quietly(answer: Answer, *inputs: Any) -> np.ndarray:
    """Return what comes back, and leave the call out of the message: it is fifteen lines of arrays, and the text says it all."""
    got = answer(*inputs)
    if got is not None:
        answer.tried = answer.got = ""
    expect(isinstance(got, np.ndarray), f"`gae` returned {type(got).__name__}, not one array of shape [T, N].")
    return got


def _where(got: Any, want: np.ndarray) -> str:
    if np.shape(got) != want.shape:
        return f"the result has the shape {np.shape(got)}."
    step, env = np.argwhere(~np.isclose(got, want))[-1] if not np.allclose(got, want) else (0, 0)
    return f"going backwards, the first difference is at t = {step} in environment {env}, {np.asarray(got)[step, env]:.4g}."


def _advantages(
    rewards: np.ndarray, values: np.ndarray, terminated: Any, truncated: Any, gamma: float, lam: float
) -> np.ndarray:
    """Return Schulman et al. 2016, equation 16, as it is written: a sum for each step, up to the end of its episode."""
    deltas = rewards + gamma * np.where(terminated, 0, values[1:]) - values[:-1]
    advantages, (steps, envs) = np.zeros(rewards.shape), rewards.shape
    for t, env in np.ndindex(steps, envs):
        for later in range(t, steps):
            advantages[t, env] += (gamma * lam) ** (later - t) * deltas[later, env]
            if terminated[later, env] or truncated[later, env]:
                break
    return advantages


@exercise(
    points=2,
    minutes=10,
    hints=[
        "Three steps: put the weights once, tell everybody, let everybody play. Where is the first `ray.get`?",
        "Calls of one actor run in the order in which they were sent: `sample` sees what `set_weights` before it did.",
    ],
)
def collect(answer: Answer, rng: Generator) -> None:
    """Put once, send the reference to all, launch all, and only then wait: Ray keeps the order of the calls of each actor."""
    count, steps = 3, int(rng.integers(10, 100))
    rounds: list[dict[str, Any]] = [{"version": version, "w": rng.random(given.MB // 8)} for version in (3, 4)]
    with answer.watch() as seen:
        before = _put_in(seen)
        found = answer.probe(given.collect_rounds, rounds, count, steps)
        copies = (_put_in(seen) - before) / rounds[0]["w"].nbytes
    told = f"`collect` was called twice with {count} samplers"
    for number, (fragments, weights) in enumerate(zip(found["rounds"], rounds, strict=False)):
        expect(isinstance(fragments, list), f"{told} and returned a {fragments}, not a list.")
        strange = [fragment for fragment in fragments if not isinstance(fragment, dict)]
        expect(not strange, f"{told}: the list holds values of type {''.join(strange[:1])}, not fragments.")
        who = [fragment["who"] for fragment in fragments]
        expect(
            sorted(who) == list(range(count)),
            f"{told}: the fragments of call {number + 1} come from the samplers {who}. One of each, please.",
        )
        expect(not found["missed"], f"{told}: they never played at the same time. Who waits before all have begun?")
        expect(who == list(range(count)), f"{told}: the last ended first, and the fragments came in the order {who}.")
        _expect_fresh(fragments, weights, steps, told, number)
    expect(len(found["rounds"]) == len(rounds), f"{told} and came back {len(found['rounds'])} times.")
    expect(copies < 2.5, f"{told}: {copies:.0f} copies of the weights went into the store, for two sets of weights.")
    expect(copies > 1.5, f"{told}, and the weights were never in the store: how did they travel?")


def _expect_fresh(fragments: list, weights: dict, steps: int, told: str, number: int) -> None:
    for fragment in fragments:
        here = f"{told}. In call {number + 1}, with version {weights['version']}, sampler {fragment['who']} played "
        expect(fragment["version"] == weights["version"], here + f"with version {fragment['version']} (-1 is none).")
        expect_close(fragment["sum"], float(np.sum(weights["w"])), here + "with other numbers than the weights'.")
        expect(fragment["steps"] == steps, here + f"{fragment['steps']} steps instead of {steps}.")


def _put_in(seen: Watched) -> float:
    """Return how many bytes were put into the stores of the cluster since it started."""
    return sum(store["created_bytes"] for store in seen.stores())


@exercise(
    points=3,
    minutes=20,
    hints=[
        "Keep a dict from reference to sampler: who plays what. In the beginning everybody plays.",
        "`ray.wait(list(playing), num_returns=1)` returns whichever is ready. Learn from it, then send *that* sampler off again.",
        "`ray.get` of a fragment whose sampler has died raises `ray.exceptions.RayActorError`: drop it, and go on with the others.",
    ],
)
def collect_async(answer: Answer, rng: Generator) -> None:
    """A dict says who plays what; whoever is ready is learned from, gets the newest weights, and plays on at once."""
    samplers, steps = 3, int(rng.integers(10, 100))
    slow, slower = rng.permutation(samplers).tolist()[:2]
    weights = {"version": 0, "w": rng.random(8)}
    dies, count, fewer = int(rng.integers(samplers)), int(rng.integers(9, 12)), int(rng.integers(6, 9))
    scenes = [{"count": count, "after": [[slow, 3], [slower, 6]]}, {"count": fewer, "dies": dies}]
    found = answer.probe(given.in_two_scenes, weights, steps, samplers, scenes)
    told = (
        f"Three samplers, {count} fragments; sampler {slow} only hands in when you have learned from three "
        f"fragments of others, sampler {slower} from six. "
    )
    expect(not found[0]["alone"], told + "The three never played their first fragments at the same time.")
    expect(not found[0]["waited"], told + "But you waited for one of the two before you had learned from so many.")
    _expect_heard(found[0]["heard"], weights, steps, count, told)
    told = f"Three samplers, {fewer} fragments; sampler {dies} dies over its first. "
    expect(
        not found[1]["raised"], told + f"`collect_async` raised {found[1]['raised']}: two others could have gone on."
    )
    _expect_heard(found[1]["heard"], weights, steps, fewer, told)
    again = f"You asked it for {found[1]['asked']} fragments, most of them after its death. Leave it out."
    expect(found[1]["asked"] < 5, told + again)


def _expect_heard(heard: list, weights: dict, steps: int, count: int, told: str) -> None:
    """Check what reached `learn`: each fragment once, and each played with the newest weights of its start."""
    strange = [fragment for fragment in heard if not isinstance(fragment, dict)]
    expect(not strange, told + f"`learn` was given a value of type {''.join(strange[:1])}, not a fragment.")
    names = [(fragment["who"], fragment["number"]) for fragment in heard]
    twice = [name for name in names if names.count(name) > 1]
    expect(not twice, told + "`learn` was given the same fragment more than once.")
    expect(len(heard) == count, told + f"`learn` was called {len(heard)} times.")
    expect(all(fragment["steps"] == steps for fragment in heard), told + f"Not every fragment had {steps} steps.")
    total, last = float(np.sum(weights["w"])), dict.fromkeys(range(3), 0)
    for version, fragment in enumerate(heard, 1):
        who, played = fragment["who"], fragment["version"]
        made = total + len(weights["w"]) * played
        here = (
            told + f"Fragment {fragment['number'] + 1} of sampler {who} was played with version {played} of the weights"
        )
        expect(0 <= played < version and np.isclose(fragment["sum"], made), f"{here}, which nobody had made by then.")
        newest = f"; when it began, version {last[who]} was there."
        expect(played >= last[who], here + newest)
        last[who] = version


@exercise(
    points=2,
    minutes=10,
    hints=[
        "`np.polyfit(lengths, seconds, 1)` returns slope and intercept, in this order. Which of them is the price of a call?",
        "Of a fragment of L frames, price / (price + L × seconds of a frame) is overhead. Solve that for L, and round up.",
        "A price that comes out as 0 or less means: even one frame is long enough.",
    ],
)
def fragment_length(answer: Answer, rng: Generator) -> None:
    """The line's intercept is the price of a call: (price / share - price) / slope frames pay for it."""
    lengths = [1, 2, 4, 8]
    _expect_length(answer, lengths, [0.011, 0.012, 0.014, 0.018], 0.1, "10 ms for a call, 1 ms for a frame")
    _expect_length(answer, lengths, [0.011, 0.012, 0.014, 0.018], 0.3, "10 ms for a call, 1 ms for a frame")
    _expect_length(answer, lengths, [0.011, 0.012, 0.014, 0.018], 0.5, "10 ms for a call, 1 ms for a frame")
    _expect_length(answer, lengths, [0.002, 0.004, 0.008, 0.016], 0.1, "Nothing for a call, 2 ms for a frame")
    _expect_length(answer, lengths, [0.001, 0.003, 0.007, 0.015], 0.1, "By chance less than nothing for a call")
    lengths = np.sort(rng.choice(np.arange(1, 200), size=8, replace=False)).tolist()
    for noise in (0.0, 0.2):
        price, frame, share = rng.uniform(5e-3, 2e-2), rng.uniform(1e-4, 1e-3), float(rng.uniform(0.02, 0.3))
        seconds = price * (1 + noise * rng.uniform(-1, 1, size=8)) + frame * np.array(lengths)
        about = "Random points near a line" if noise else "Points on a line"
        _expect_length(answer, lengths, seconds.tolist(), share, about)


def _expect_length(answer: Answer, lengths: list, seconds: list, share: float, about: str) -> None:
    got = answer(lengths, seconds, share)
    told = f"{about}, share {share:.3g}: {got} came back"
    expect(isinstance(got, int | float) and got == int(got), f"{told}, which is not a whole number.")
    frame, price = np.polyfit(lengths, seconds, 1)
    exact = max((price / share - price) / frame, 1)
    wasted = 100 * price / (price + got * frame) if got >= 1 else 100
    spoiled = f"{told}. Of such a fragment {wasted:.1f} % are overhead"
    expect(got >= 1, f"{told}. A fragment has at least one frame.")
    expect(got > exact - 1e-6 * exact, f"{spoiled}: that is more than the share.")
    expect(got <= math.ceil(exact + 1e-6 * exact), f"{spoiled}: a shorter one would do.")


quiz(
    "where_it_stopped",
    """
    A fragment of 64 frames stops in the middle of an episode: neither flag is set in its last frame. What belongs behind its last step?

    a) 0: there is nothing after the last frame.
        There is: the next fragment goes on with this very episode. The learner only does not have it yet.
    *b) The value of `last_obs`.
        Right. The seam between two fragments is treated as a truncated end is: estimate what follows.
    c) The sampler has to play on until the episode ends.
        RLlib can do that (`batch_mode='complete_episodes'`), but then an episode of an hour holds up everybody for an hour.
    """,
)

quiz(
    "amdahls_limit",
    """
    With one sampler an iteration takes 10 s, of which 1 s is learning. With how many samplers does it take half a second?

    a) With 20.
        The second of learning stays, however many play.
    b) With 18: they have 9 s to share.
        Then playing takes half a second, and learning one more.
    *c) With no number of them.
        Right: even infinitely many leave the second of learning. Ten times as fast is the limit; nine samplers reach five times.
    """,
)

quiz(
    "who_waits",
    """
    16 samplers; one of them needs twice as long as the others. How many fragments a second does `collect` bring, compared with 16 equal ones?

    a) 15.5 of 16, about 97 %.
        That is what `collect_async` brings: there the slow one slows only itself.
    *b) Half as many.
        Right: in every round fifteen wait for one, as long as they have played.
    c) 1/16 fewer.
        Nobody is left out: all wait until the slow one has handed in.
    """,
)

quiz(
    "async_price",
    """
    You replace `collect` by `collect_async` under an algorithm that assumes that the current policy has played. What changes?

    a) Nothing: fragments are fragments.
        They are played with weights of several versions ago, and the quick samplers hand in more of them.
    b) It learns more in the same time, because there is more experience.
        There is more of it, but it shows what an older policy did. How much that harms depends on the algorithm.
    *c) More experience a second, and all of it a little old: the algorithm must correct for it, or you must limit it.
        Right. IMPALA corrects with the ratio of the two policies; PPO's clipping bears a little; others drop what is too old.
    """,
)
