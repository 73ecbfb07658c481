"""The judge's side of chapter 20."""

from functools import partial

import numpy as np
from numpy.random import Generator

from coursekit.capstone.referee import NotActions, checked, score
from coursekit.exercises._samplers import expect_samplers_kept_up
from coursekit.given import ch20_capstone as given
from coursekit.given.warehouse import Policy, World, baseline, draw_world, evaluate, make_envs, paying
from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import Wrong, expect

TRIES = 3  # an agent may be unlucky: the first that reaches the goal is enough
OVER = 1.1  # times the budget: so much is forgiven
ENOUGH = 0.75  # of the baseline's mean: the luckiest of 150 greedy networks that had learned nothing reached 0.7


@exercise(
    points=2,
    minutes=15,
    hints=[
        "`evaluate(policy, episodes, seed, make_envs)` plays in the warehouses that the entry was given, and returns a return for each episode.",
        "An entry returns the policy itself, not what the policy returns: `return hurry`, without parentheses.",
        "Three lines: a mean of `evaluate(...)`, `budget.report(...)` of it, and the `return`.",
    ],
)
def valid_entry(answer: Answer, rng: Generator) -> None:
    """Measure in the warehouses that you were given, report what you measured, return the function."""
    # Long: the judge owns the warehouses in which an entry learns and is measured; they are the capstone's own.
    world, dearer = _world(rng), int(rng.integers(3, 7))
    world = world._replace(prices=tuple(dearer * price for price in world.prices))
    told = _told(answer, world, 3.0, rng)
    for count in (1, 7):  # a policy does not know how many warehouses there will be
        _actions(answer, make_envs(count, world).reset(seed=int(rng.integers(1, 10**6)))[0])
    episodes, exam = int(rng.integers(150, 250)), int(rng.integers(1, 10**6))
    returns = _returns(answer, world, episodes, exam)
    mean = float(returns.mean())
    expect(told["curve"], "It reported nothing: `budget.report(mean_return)` writes a point of the learning curve.")
    prices = _listed(world)
    expect(
        told["episodes"] >= 50,
        f"It played {told['episodes']:.0f} whole episodes before it reported. The mean of 50 is asked for: fewer leave it to luck.",
    )
    _, said = told["curve"][-1]
    expect(
        abs(said - mean) <= 0.2 * abs(mean) + 0.5 * max(world.prices),
        f"It reported a mean return of {said:.0f}. In the warehouses that it was given, where parcels pay {prices}, "
        f"its policy earned {mean:.0f}. In which warehouses was that measured, and is it a mean for one episode?",
    )
    expect(
        (returns != _others(baseline, world, episodes, exam)).any(),
        f"In each of {episodes} episodes its policy earned exactly what the baseline earns: it is the baseline. Which rule was to be measured and returned?",
    )


@exercise(
    points=3,
    minutes=25,
    hints=[
        "Which three things does a round of chapter 10 do, one after the other? Your sampler is here, in this process: no `.remote`, no `ray.get`.",
        "`sampler.set_weights(policy.weights())`, then `learn(policy, optimizer, joined([sampler.sample()]))`.",
        "Test every few rounds: `evaluate(greedy(policy.weights()), 50, seed, make_envs).mean()`. Report it, and leave the loop when it is good enough or little is left.",
    ],
)
def beats_random(answer: Answer, rng: Generator) -> None:
    """Send the weights, play, learn, round after round; test now and then, and stop in time."""
    # Long: the judge owns the warehouses in which an entry learns and is measured; they are the capstone's own.
    means: list[float] = []
    for _ in range(TRIES):
        world, exam = _world(rng), int(rng.integers(1, 10**6))
        told = _told(answer, world, 30.0, rng)
        expect(told["curve"], "It reported no test: `budget.report(mean_return)` writes a point of the learning curve.")
        rule = _others(baseline, world, 200, exam).mean()
        reported, last = len(told["curve"]), told["curve"][-1][1]
        expect(
            reported >= 3,
            f"Tests reported: {reported}, the last with a mean return of {last:.1f} (the baseline earns about {rule:.0f}). "
            f"It used {told['spent']:.1f} of 30 CPU seconds. At least three tests are asked for. How many rounds lie between two of them, and when does the loop end?",
        )
        returns = _returns(answer, world, 200, exam)
        means.append(float(returns.mean()))
        if means[-1] >= ENOUGH * rule:
            _expect_learned(answer, world, returns, exam, rng)
            return
        if means[-1] < rule / 4:
            break  # that was no bad luck
    earned = ", ".join(f"{mean:.1f}" for mean in means)
    raise Wrong(
        f"Mean return in 200 episodes that it has not seen: {earned}. "
        f"Three quarters of the baseline's {rule:.0f} are asked for. "
        "Does it play with the weights that were learned last, and does it return those?"
    )


def _expect_learned(answer: Answer, world: World, returns: np.ndarray, exam: int, rng: Generator) -> None:
    """Have it learn where the kinds of parcels pay something else: what has learned the prices plays differently then."""
    _told(answer, world._replace(prices=tuple(np.roll(world.prices, 1).tolist())), 4.0, rng)
    expect(
        (_returns(answer, world, 200, exam) != returns).any(),
        "It learned again, with other prices and less time, and earned exactly the same, episode by episode: a rule, nothing was learned.",
    )


@exercise(
    points=5,
    minutes=30,
    needs={"CPU": 2},
    hints=[
        "It is `beats_random` with two samplers that are actors: `with started(make_envs, 2) as actors:` around the loop.",
        "The weights go into the store once (`ray.put`), each actor is sent the reference; then all are told to `sample`, and only then comes one `ray.get`.",
        "Compare with `goal * evaluate(baseline, ...)` in the same episodes as your test. If it hangs below the baseline, look whether the actors get new weights in each round.",
    ],
)
def beats_baseline(answer: Answer, rng: Generator) -> None:
    """Two samplers play with the weights of this moment, one learner learns, and a test in the baseline's episodes says when to stop."""
    # Long: besides what `beats_random` needs, Ray's records say whether both samplers played, with new weights.
    leads: list[str] = []
    for number in range(TRIES):
        world, exam = _world(rng), int(rng.integers(1, 10**6))
        if number:
            _told(answer, world, 60.0, rng)
        else:
            with answer.watch() as seen:
                told = _told(answer, world, 60.0, rng)
            expect_samplers_kept_up(seen.tasks(), told["sent"])
        returns = _returns(answer, world, 200, exam)
        rules = [_others(rule, world, 200, exam) for rule in (baseline, paying(world.prices))]
        expect(
            (returns != rules[0]).any(),
            "It earned exactly what the baseline earns, episode by episode: it is the baseline.",
        )
        if all(score(returns - rule).low > 0 for rule in rules):
            return
        leads.append(" : ".join(f"{each.mean():.1f}" for each in (returns, *rules)))
        if returns.mean() < 0.7 * rules[0].mean():
            break  # that was no bad luck
    listed, prices = ", ".join(leads), _listed(world)
    raise Wrong(
        f"Mean returns in 200 episodes that it has not seen, its own, the baseline's and that of the rule that knows all prices: {listed}. "
        f"Both leads must be clear, with their 95 % intervals above 0. Parcels paid {prices}."
    )


def _world(rng: Generator) -> World:
    """Return a world that is new to the entry: prices, customers and map must be learned."""
    return draw_world(int(rng.integers(1, 10**6)))


def _listed(world: World) -> str:
    return ", ".join(f"{price:g}" for price in world.prices)


def _told(answer: Answer, world: World, seconds: float, rng: Generator) -> given.Told:
    """Return what is told of an entry that has learned, once it is certain that it returned a function within its budget."""
    told = answer.probe(given.have_it_learn, [list(part) for part in world], seconds, int(rng.integers(1, 10**6)))
    expect(
        told["returned"] == "a function",
        f"The entry returned something of the type {told['returned']}. "
        "A policy is a function from observations to actions: return the function, do not call it.",
    )
    expect(
        told["spent"] <= OVER * seconds,
        f"It had {seconds:g} CPU seconds and used {told['spent']:.1f}: go on only while `budget.left()` is enough for a round.",
    )
    return told


def _actions(answer: Answer, obs: np.ndarray) -> np.ndarray:
    """Return the actions of the policy that was learned last, once it is certain that they are actions."""
    asked = len(obs)
    try:
        return checked(answer.probe(given.ask_it, obs), asked)
    except NotActions as wrong:
        problem = str(wrong)
    raise Wrong(f"Asked about {asked} observations, {problem}")


def _returns(answer: Answer, world: World, episodes: int, seed: int) -> np.ndarray:
    return _others(partial(_actions, answer), world, episodes, seed)


def _others(policy: Policy, world: World, episodes: int, seed: int) -> np.ndarray:
    """Return what a policy earns in each episode of an exam."""
    return evaluate(policy, episodes, seed, partial(make_envs, world=world))


question(
    "what_a_budget_buys",
    """
    An entry has a budget of 60 CPU seconds. On a machine with many cores you give it eight samplers instead of two. What does that change?

    a) It learns from four times as many frames.
        Eight samplers also use four times as many CPU seconds each second: the budget ends sooner.
    *b) It is done sooner by the clock, with about the same number of frames to learn from.
        Right, at best. Each further process also costs its start and its messages, which are frames you do not get.
    c) Nothing: CPU seconds are seconds by the clock.
        Only if one core works all the time. A process that sleeps uses none, and two cores use two in each second.
    """,
)

question(
    "who_scores",
    """
    Why does the judge not simply call your `train` and take the mean return that it reports?

    a) Because a report would arrive too late.
        It arrives at once. The question is whether it can be believed.
    b) Because your tests cost CPU seconds the judge wants to save.
        They come out of your budget, and the judge plays another 200 episodes.
    *c) Because the trainer chose by testing, and may have tested in episodes it learned from.
        Right. The best of many tests is partly luck, and a program can also err about itself. New episodes, which the judge owns, know nothing of that.
    """,
)

question(
    "close_race",
    """
    On the board, Ada's agent has 84.1 ± 2.4 and Bob's 82.6 ± 2.3, each in 200 episodes of its own. Is Ada's better?

    a) Yes: 84.1 is more than 82.6.
        The next 200 episodes could turn it: both intervals hold 83.
    *b) These numbers cannot say. Let both play the same episodes, and look at the differences.
        Right. Much of the spread comes from the episodes, generous ones and poor ones; in a difference it cancels. That is how the lead over the baseline is measured.
    c) No: where intervals overlap, two agents are equally good.
        The overlap proves neither a difference nor equality. A finer measurement may tell them apart.
    """,
)
