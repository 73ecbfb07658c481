"""The judge's side of chapter 8."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypedDict

import numpy as np
from numpy.random import Generator

from coursekit.given import ch08_rollouts as given
from coursekit.given.scripted import frames_of
from coursekit.judging.answer import Answer, Watched
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import agree, expect, expect_close, expect_equal, expect_type

KEYS = ["obs", "actions", "rewards", "terminated", "truncated", "real", "last_obs", "version"]


@exercise(
    points=3,
    minutes=15,
    hints=[
        "Which two things must the object remember from one fragment to the next, so that the seam does not show?",
        "A frame is a reset when the frame *before* it ended an episode, even if that one was in the fragment before.",
        "Append the six values of each frame to six lists, `np.stack` each list at the end; `last_obs` is what the next frame would begin with.",
    ],
)
def Sampler(answer: Answer, rng: Generator) -> None:
    """Keep the last observation, and where an episode has just ended, in the object: a fragment continues where the last one stopped."""
    # Long: 40 lines are the scripted environment of chapter 7, and each key of a fragment can be wrong by itself.
    steps, seed = int(rng.integers(5, 8)), int(rng.integers(10, 10_000))
    scripts = _scripts(rng, steps)
    old, new = _two_versions(rng)
    fragments = answer.probe(given.play_fragments, scripts, [[old, steps], [new, steps + 1], [None, 4]], seed)
    frames = frames_of(scripts, 2 * steps + 5, seed)
    parts = frames[: steps + 1], frames[steps : 2 * steps + 2], frames[2 * steps + 1 :]
    expect(len(fragments) == len(parts), "Each call of `sample` should bring one fragment.")
    for number, (fragment, played) in enumerate(zip(fragments, parts, strict=True), 1):
        with answer.case(f"3 environments, fragments of {steps}, {steps + 1} and 4 frames; this is fragment {number}"):
            _expect_form(fragment, len(played) - 1)
            _expect_first_frame(fragment["obs"][0], played[0, :, :3], number)
            _expect_frames(fragment, played, old if number == 1 else new, old)


def _scripts(rng: Generator, steps: int) -> list[list[dict]]:
    """Return the episodes of three environments; the first step of each earns 0, as a reset does."""
    first = {"rewards": [0.0]}
    return [
        [{"length": steps, "truncated": False, **first}],  # its reset is the second fragment's first frame
        [{"length": 2, "truncated": True, **first}, {"length": 3, "truncated": False, **first}],
        [{"length": int(rng.integers(30, 40)), "truncated": False, **first}],  # never ends here
    ]


def _two_versions(rng: Generator) -> tuple[dict, dict]:
    """Return weights and later ones, which choose other actions."""
    old: dict[str, Any] = {"version": int(rng.integers(1, 50)), "w": rng.integers(1, 4, size=3)}
    return old, {"version": old["version"] + int(rng.integers(1, 9)), "w": old["w"] + [0, 0, 1]}


def _expect_form(fragment: Any, length: int) -> None:
    expect(isinstance(fragment, dict), f"`sample` returned {fragment!r:.80}, not a dict.")
    found = list(fragment)
    expect(set(KEYS) <= set(found), f"The keys are {found}.")
    shapes = {"obs": (length, 3, 3), "last_obs": (3, 3)}
    for key in KEYS[:-1]:
        column, want = fragment[key], shapes.get(key, (length, 3))
        expect(isinstance(column, np.ndarray), f"`{key}` is a list, not an array: `np.stack` makes it one.")
        expect(column.shape == want, f"`{key}` has the shape {column.shape}; a row for each frame makes {want}.")


def _expect_first_frame(mine: np.ndarray, right: np.ndarray, number: int) -> None:
    seeded = number > 1 or agree(mine[:, :2], right[:, :2])  # the seed and the episode of each
    observed, stopped = mine.tolist(), right.tolist()
    expect(seeded, f"The first frame observed {observed}: reset with the seed, once.")
    expect(
        number == 1 or agree(observed, stopped),
        f"The first frame observed {observed}, the fragment before had stopped at {stopped}. "
        "A fragment is not an episode: continue.",
    )


def _expect_frames(fragment: dict, frames: np.ndarray, weights: dict, old: dict) -> None:
    """Compare one fragment with what happened; each message knows a usual mistake."""
    version, last = fragment["version"], fragment["last_obs"].tolist()
    _expect_obs(fragment["obs"].tolist(), frames[:-1, :, :3].tolist())
    expect_equal(version, weights["version"], f"`version` came out as {version}: whose weights played?")
    _expect_steps(fragment, frames[:-1], weights, old)
    expect_equal(last, frames[-1, :, :3], f"`last_obs` is {last}. What would the next frame begin with?")


def _expect_obs(obs: list, frames: list) -> None:
    for row, (mine, right) in enumerate(zip(obs, frames, strict=True)):
        expect_equal(
            mine,
            right,
            f"Row {row} of `obs` is {mine}. It must be what the policy saw when it chose the action of that row.",
        )


def _expect_steps(fragment: dict, frames: np.ndarray, weights: dict, old: dict) -> None:
    obs, (clock, length, truncated) = frames[:, :, :3], np.moveaxis(frames[:, :, 2:], 2, 0)
    actions, real, ends = given.chooses(weights, obs), clock < length, clock == length - 1
    _expect_actions(fragment["actions"][real], actions[real], given.chooses(old, obs)[real])
    rewards = np.where(clock == 0, 0, 10 * actions + clock + 1)
    want = {"rewards": rewards, "terminated": ends & (truncated == 0), "truncated": ends & (truncated == 1)}
    for key, column in want.items():
        expect_close(fragment[key][real], column[real], f"`{key}` is not what the environments said.")
    _expect_real(fragment["real"] != 0, real)


def _expect_actions(mine: np.ndarray, right: np.ndarray, old: np.ndarray) -> None:
    expect_close(
        mine,
        right,
        "The actions are not the policy's.",
        mistakes={"The actions are those of the *old* weights.": old},
    )


def _expect_real(mine: np.ndarray, real: np.ndarray) -> None:
    lost, resets = np.argwhere(real & ~mine).tolist(), np.argwhere(mine & ~real).tolist()
    expect(not lost, f"Not marked as real, though their actions counted: [frame, environment] {lost}.")
    expect(
        not resets or resets[0][0] > 0,
        f"Marked as real: [frame, environment] {resets}. That is the reset of an episode that had ended in the fragment before.",
    )
    expect(not resets, f"Marked as real: [frame, environment] {resets}. It is the reset: the action was ignored.")


@exercise(
    points=3,
    minutes=20,
    hints=[
        "Walk backwards, as in chapter 7: `later` is the advantage of the step after this one, 0 after the last row.",
        "One line for δ: what counts as V(s_{t+1}) after `terminated`? One line for the sum: at which ends does it stop?",
        "`~terminated[t]` is 1 where the episode was not terminated and 0 where it was, for all environments at once.",
    ],
)
def gae(answer: Answer, rng: Generator) -> None:
    """Walk backwards; only `terminated` removes V(s'), and both kinds of end cut the sum."""
    # Long: six usual mistakes are computed, each for a message of its own.
    _expect_by_hand(answer)
    _expect_of_random(answer, rng)


def _expect_by_hand(answer: Answer) -> None:
    """Check numbers that a learner can follow on paper."""
    none, end = np.zeros((3, 1), bool), np.array([[False], [True], [False]])
    for column, lam in (([0, 0, 0, 0], 1.0), ([1, 2, 3, 4], 0.0), ([0, 0, 4, 8], 0.5)):
        for name, ends in {"no end": (none, none), "terminated": (end, none), "truncated": (none, end)}.items():
            with answer.case(f"rewards 1, 1, 1, values {column}, γ = 0.5, λ = {lam:g}; at t = 1: {name}"):
                inputs = np.ones((3, 1)), np.array(column, float)[:, None], *ends
                _expect_advantages(answer(*inputs, 0.5, lam), inputs, 0.5, lam)


def _expect_of_random(answer: Answer, rng: Generator) -> None:
    inputs = _random_inputs(rng)
    steps, envs = inputs[0].shape
    gamma, lam = float(rng.uniform(0.5, 0.95)), float(rng.uniform(0.3, 0.9))
    with answer.case(f"random numbers, T = {steps}, N = {envs}, γ = {gamma:.2f}, λ = {lam:.2f}"):
        _expect_advantages(answer(*inputs, gamma, lam), inputs, gamma, lam)
    with answer.case(f"random numbers, T = {steps}, N = {envs}, with the default γ and λ"):
        _expect_advantages(answer(*inputs), inputs, 0.99, 0.95)


def _random_inputs(rng: Generator) -> tuple[np.ndarray, ...]:
    """Return inputs in which the first environments end half-way: terminated, truncated, not at all."""
    steps, envs = int(rng.integers(8, 13)), int(rng.integers(3, 6))
    rewards, values, random = (rng.normal(size=(rows, envs)) for rows in (steps, steps + 1, steps))
    random[steps // 2, :3] = -2, 2, 0
    return rewards, values, random < -1, random > 1


def _expect_advantages(got: Any, inputs: tuple[np.ndarray, ...], gamma: float, lam: float) -> None:
    rewards, values, terminated, truncated = inputs
    expect(isinstance(got, np.ndarray), "`gae` must return one array of shape [T, N], not a list of rows.")
    expect(got.dtype.kind in "fiu", f"The result is an array of {got.dtype}, not of numbers.")
    expect(got.shape == rewards.shape, f"The shape of the result is {got.shape}, that of the rewards {rewards.shape}.")
    computed = partial(_advantages, rewards, gamma=gamma, lam=lam)
    _expect_sums(got, computed, values, terminated, terminated | truncated)


def _expect_sums(
    got: np.ndarray, computed: Callable[..., np.ndarray], values: np.ndarray, terminated: np.ndarray, done: np.ndarray
) -> None:
    """Compare with what is `computed` from values, from where no future counts, and from where the sum stops."""
    want, never = computed(values, terminated, done), np.zeros_like(done)
    without_last = np.concatenate([values[:-1], 0 * values[-1:]])
    t, env = [*np.argwhere(~np.isclose(got, want)).tolist(), [0, 0]][-1]
    value = got[t, env]
    expect_close(
        got,
        want,
        f"Going backwards, the first difference is at t = {t} in environment {env}: {value:.4g}.",
        mistakes={
            "Something leaks across a truncated end: it stops the sum, too.": computed(values, terminated, terminated),
            "Something leaks across the ends: both kinds of end stop the sum.": computed(values, terminated, never),
            "A truncated episode would have continued: V(s') counts there.": computed(values, done, done),
            "Nothing follows after a terminated end: V(s') counts as 0 there.": computed(values, never, done),
            "The last row of `values` is the worth of what follows.": computed(without_last, terminated, done),
            "Subtract V(s): these are the values plus the advantages.": want + values[:-1],
        },
    )


def _advantages(
    rewards: np.ndarray, values: np.ndarray, no_future: Any, cut: Any, gamma: float, lam: float
) -> np.ndarray:
    """Return Schulman et al. 2016, equation 16: V(s') is 0 at `no_future`, and the sum stops at `cut`."""
    advantages, later = np.zeros(rewards.shape), np.zeros(rewards.shape[1])
    for t in reversed(range(len(rewards))):
        delta = rewards[t] + gamma * np.where(no_future[t], 0, values[t + 1]) - values[t]
        later = advantages[t] = delta + gamma * lam * np.where(cut[t], 0, later)
    return advantages


@exercise(
    points=2,
    minutes=10,
    needs={"CPU": 4},
    hints=[
        "Three steps: put the weights once, send them to all samplers, let all of them play. Where is the first `ray.get`?",
        "Your calls to one of these samplers run in the order in which you sent them: `sample` plays with what `set_weights` brought.",
    ],
)
def collect(answer: Answer, rng: Generator) -> None:
    """Put once, send the reference to all, launch all, and only then wait: your calls to an ordinary actor keep their order."""
    steps = int(rng.integers(10, 100))
    rounds: list[dict[str, Any]] = [{"version": version, "w": rng.random(given.MB // 8)} for version in (3, 4)]
    with answer.case(f"3 samplers, fragments of {steps} frames, two calls; the last sampler ends first"):
        found, copies = _collected(answer, rounds, steps)
        for fragments, weights in zip(found["rounds"], rounds, strict=False):
            _expect_round(fragments, weights, steps, found["missed"])
        _expect_put_once(copies)


def _collected(answer: Answer, rounds: list[dict], steps: int) -> tuple[given.Rounds, float]:
    """Return what `collect` brought, and how many copies of the weights went into the store meanwhile."""
    with answer.watch() as seen:
        before = _put_in(seen)
        found = answer.probe(given.collect_rounds, rounds, 3, steps)
        return found, (_put_in(seen) - before) / rounds[0]["w"].nbytes


def _expect_put_once(copies: float) -> None:
    expect(copies < 2.5, f"Copies of the weights that went into the store: {copies:.0f}, for two sets of weights.")
    expect(copies > 1.5, "The weights were never in the store: how did they travel?")


def _expect_round(got: Any, weights: dict, steps: int, missed: bool) -> None:
    expect(
        isinstance(got, list | tuple) and all(isinstance(fragment, dict) for fragment in got),
        f"`collect` returned {got!r:.80}, not a list of fragments.",
    )
    fragments = expect_type(got, list[given.Fragment], "fragments")
    _expect_all_samplers([fragment["who"] for fragment in fragments], missed)
    for fragment in fragments:
        _expect_played_with(weights, steps, fragment)


def _expect_all_samplers(who: list[int], missed: bool) -> None:
    expect(sorted(who) == [0, 1, 2], f"The fragments come from the samplers {who}. One of each, please.")
    expect(not missed, "The samplers never played at the same time. What waits before all have begun?")
    expect(who == [0, 1, 2], f"The fragments came in the order {who}, not in that of the samplers.")


def _expect_played_with(weights: dict, steps: int, fragment: given.Fragment) -> None:
    mine, version, played = fragment["version"], weights["version"], fragment["steps"]
    expect(mine == version, f"With weights of version {version}, a sampler played with version {mine} (-1 is none).")
    total = float(np.sum(weights["w"]))
    expect_close(fragment["sum"], total, "A sampler played with other numbers than the weights'.")
    expect(played == steps, f"A sampler played {played} steps instead of {steps}.")


class Store(TypedDict):
    """What Ray's records say of an object store."""

    created_bytes: float


def _put_in(seen: Watched) -> float:
    """Return how many bytes were put into the stores of the cluster since it started."""
    return sum(store["created_bytes"] for store in expect_type(seen.stores(), list[Store], "the stores"))


@exercise(
    points=3,
    minutes=20,
    needs={"CPU": 4},
    hints=[
        "Keep a dict from reference to sampler: it says which sampler plays which fragment. At first all of them play.",
        "`ray.wait(list(playing), num_returns=1)` returns one that is ready. Learn from it, then send *that* sampler off again.",
        "`ray.get` of a fragment whose sampler has died raises `ray.exceptions.RayActorError`: drop it, and continue with the others.",
    ],
)
def collect_async(answer: Answer, rng: Generator) -> None:
    """A dict says which sampler plays what; learn from the one that is ready, send it the newest weights, and let it play again."""
    steps, count = int(rng.integers(10, 100)), int(rng.integers(12, 15))
    slow, dies = rng.permutation(3).tolist()[:2]
    with answer.case(
        f"3 samplers, {count} fragments; sampler {slow} hands in its first when three others have been learned, "
        f"sampler {dies} dies over its first when six have been learned"
    ):
        with answer.watch() as seen:
            found = answer.probe(given.with_a_straggler_and_a_death, steps, count, slow, dies)
        _expect_to_go_on(found)
        _expect_heard(found["heard"], steps, count)
        _expect_dead_left_out(seen.tasks())


def _expect_to_go_on(found: given.Learned) -> None:
    """Check that neither the slow sampler nor the dead one held up the others."""
    expect(not found["alone"], "The three never played their first fragments at the same time.")
    expect(not found["waited"], "You waited for a sampler while another one had its fragment ready.")
    expect(not found["raised"], f"`collect_async` raised {found['raised']}: the other two could have continued.")
    expect(not found["stayed"], "After the last fragment you waited for one that was still under way. Leave it alone.")


def _expect_dead_left_out(tasks: list[dict]) -> None:
    lost = sum(task["name"].endswith("sample") and task["state"] == "FAILED" for task in tasks)
    expect(lost < 5, f"Fragments asked for that never came: {lost}. Leave out the sampler that has died.")


def _expect_heard(heard: list[given.Fragment], steps: int, count: int) -> None:
    """Check what reached `learn`: each fragment once, and each played with the newest weights of its start."""
    names, calls = {(fragment["who"], fragment["number"]) for fragment in heard}, len(heard)
    expect(len(names) == calls, "`learn` was given the same fragment more than once.")
    expect(calls == count, f"`learn` was called {calls} times.")
    expect(all(fragment["steps"] == steps for fragment in heard), f"Not every fragment had {steps} steps.")
    _expect_newest(heard)


def _expect_newest(heard: list[given.Fragment]) -> None:
    newest: dict[int, int] = {}
    for version, fragment in enumerate(heard, 1):
        who, number, played = fragment["who"], fragment["number"] + 1, fragment["version"]
        ready = newest.get(who, 0)
        expect(
            played >= ready,
            f"Fragment {number} of sampler {who} was played with version {played} of the weights; "
            f"when it began, version {ready} was ready.",
        )
        newest[who] = version


@exercise(
    points=2,
    minutes=10,
    hints=[
        "`np.polyfit(lengths, seconds, 1)` returns slope and intercept, in this order. Which of them is the price of a call?",
        "Of a fragment of L frames, price / (price + L × seconds of a frame) is overhead. Solve that for L, and round up.",
        "If the price comes out as 0 or less, even one frame is long enough.",
    ],
)
def fragment_length(answer: Answer, rng: Generator) -> None:
    """The line's intercept is the price of a call; (price / share - price) / slope frames pay for it."""
    _expect_for_round_numbers(answer)
    lengths = np.sort(rng.choice(np.arange(1, 200), size=8, replace=False)).tolist()
    for noise, about in ((0.0, "points on a line"), (0.2, "random points near a line")):
        price, frame, share = rng.uniform(5e-3, 2e-2), rng.uniform(1e-4, 1e-3), float(rng.uniform(0.02, 0.3))
        seconds = price * (1 + noise * rng.uniform(-1, 1, size=8)) + frame * np.array(lengths)
        _expect_length(answer, lengths, seconds.tolist(), share, about)


def _expect_for_round_numbers(answer: Answer) -> None:
    lengths = [1, 2, 4, 8]
    for share in (0.1, 0.3, 0.5):
        _expect_length(answer, lengths, [0.011, 0.012, 0.014, 0.018], share, "10 ms for a call, 1 ms for a frame")
    _expect_length(answer, lengths, [0.002, 0.004, 0.008, 0.016], 0.1, "nothing for a call, 2 ms for a frame")
    _expect_length(answer, lengths, [0.001, 0.003, 0.007, 0.015], 0.1, "by chance less than nothing for a call")


def _expect_length(answer: Answer, lengths: list, seconds: list, share: float, about: str) -> None:
    with answer.case(f"{about}, share {share:.3g}"):
        got = answer(lengths, seconds, share)
        whole = isinstance(got, int) or (isinstance(got, float) and got.is_integer())
        expect(whole, f"{got} came back, which is not a whole number.")
        expect(got >= 1, f"{got} came back. A fragment has at least one frame.")
        frame, price = np.polyfit(lengths, seconds, 1)
        _expect_shortest(got, price, frame, share)


def _expect_shortest(got: float, price: float, frame: float, share: float) -> None:
    exact, wasted = max((price / share - price) / frame, 1), 100 * price / (price + got * frame)
    expect(
        got > exact - 1e-6 * exact,
        f"Of a fragment of {got} frames {wasted:.1f} % are overhead: that is more than the share.",
    )
    expect(
        got <= math.ceil(exact + 1e-6 * exact),
        f"Of a fragment of {got} frames {wasted:.1f} % are overhead: a shorter one would do.",
    )


question(
    "where_it_stopped",
    """
    A fragment of 64 frames stops in the middle of an episode: neither flag is set in its last frame. What belongs after its last step?

    a) 0: there is nothing after the last frame.
        There is: the next fragment continues this very episode. The learner just does not have it yet.
    *b) The value of `last_obs`.
        Right. Treat the seam between two fragments like a truncated end: estimate what follows.
    c) The sampler has to keep playing until the episode ends.
        RLlib can do that (`batch_mode='complete_episodes'`), but then an episode of an hour holds up every sampler for an hour.
    """,
)

question(
    "amdahls_limit",
    """
    With one sampler an iteration takes 10 s, of which 1 s is learning. With how many samplers does it take half a second?

    a) With 20.
        The second of learning stays, however many samplers play.
    b) With 18: they have 9 s to share.
        Then playing takes half a second, and learning takes one more.
    *c) With no number of samplers.
        Right: even infinitely many leave the second of learning. Ten times as fast is the limit; nine samplers reach five times.
    """,
)

question(
    "who_waits",
    """
    16 samplers; one of them needs twice as long as the others. How many fragments a second does `collect` bring, compared with 16 equal ones?

    a) 15.5 of 16, about 97 %.
        That is what `collect_async` brings: there the slow one slows only itself.
    *b) Half as many.
        Right: in every round fifteen wait for one, for as long as they have played.
    c) 1/16 fewer.
        No sampler is left out: all wait until the slow one is done.
    """,
)

question(
    "async_price",
    """
    You replace `collect` by `collect_async` under an algorithm that assumes that the current policy has played. What changes?

    a) Nothing: fragments are fragments.
        They were played with weights from several versions ago, and the quick samplers deliver more of them.
    b) It learns more in the same time, because there is more experience.
        There is more of it, but it shows what an older policy did. How much harm that does depends on the algorithm.
    *c) More experience a second, and all of it a little old: the algorithm must correct for it, or you must limit it.
        Right. IMPALA corrects with the ratio of the two policies; PPO's clipping tolerates a little; other programs drop what is too old.
    """,
)
