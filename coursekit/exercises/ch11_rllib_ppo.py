"""The judge's side of chapter 11."""

import gymnasium
import numpy as np
from numpy.random import Generator

from coursekit.exercises._configs import judge_settings, settings_of
from coursekit.given import ch11_rllib_ppo as given
from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import agree, best_of, expect, expect_close, expect_type

SLIPPERY = [0, 3, 3, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0]  # FrozenLake's best direction on each square


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 4},
    hints=[
        "There are three steps: build the algorithm, train in a loop, and stop it. Which of them must happen even if training fails?",
        "`result['env_runners'].get('episode_return_mean', float('nan'))` works even if no episode has ended yet.",
        "Is `float('nan') < 0.4` true? Is `float('nan') >= 0.4`? Print both, and then decide how the loop should end.",
    ],
    spare=['            returns.append(result["env_runners"]["episode_return_mean"])'],
)
def learns_corridor(answer: Answer, rng: Generator) -> None:
    """End the loop at a mean that reaches the target, which NaN never does, and stop the algorithm whatever happens."""
    # Long: three scripts of mean returns and one error tell each wrong loop apart before anything is trained.
    _judge_scripts(answer, rng)
    length = int(rng.integers(5, 8))
    target = round(0.85 - 0.1 * (length - 2), 2)  # 0.15 less than the best policy earns
    with answer.case(f"PPO on a corridor of {length} squares, target {target}, at most 30 iterations"):
        reached = best_of(lambda seed: answer.probe(given.learn, length, seed, target, 30), rng, target)
        expect(
            reached[-1] >= target, f"PPO didn't reach the target with any seed: the last mean returns were {reached}."
        )


def _judge_scripts(answer: Answer, rng: Generator) -> None:
    """Check the loop on prepared results, which costs nothing."""
    target = float(rng.integers(2, 9))
    low = (target - rng.uniform(1, 4, size=4)).round(2).tolist()
    good, nan = round(target + float(rng.uniform(0.1, 0.9)), 2), float("nan")
    blank: list[float | None] = [None] * int(rng.integers(1, 4))
    most = int(rng.integers(5, 9))
    scripts = {
        "no episode ends in some iterations": ([*blank, low[0], nan, *low[1:], nan, nan, good, target + 2], 40),
        "the second mean return is the target": ([low[0], target, good], 40),
        "the target is never reached": ([*blank, *low * 4], most),
    }
    for name, (means, turns) in scripts.items():
        with answer.case(f"{name}: mean returns {means}, target {target}, at most {turns} iterations"):
            _judge_script(answer.probe(given.follow_script, means, target, turns), means, target, turns)
    with answer.case("an algorithm whose environment breaks in the fourth iteration"):
        seen = answer.probe(given.follow_script, low, target, 40, breaks=True)
        expect(
            seen["stops"] >= 1, "The algorithm wasn't stopped after the error, so its EnvRunners would keep running."
        )
        expect(seen["raised"], "The error didn't reach the caller. Stop the algorithm, but let the error propagate.")


def _judge_script(seen: given.Followed, means: list, target: float, most: int) -> None:
    turns = min([*(turn for turn, mean in enumerate(means, 1) if mean is not None and mean >= target), most])
    expect(seen["builds"] == 1, f"`build_algo()` was called {seen['builds']} times; build the algorithm once.")
    expect(not seen["after_stop"], "`train()` was called after the algorithm had been stopped.")
    expect(seen["stops"] >= 1, "The algorithm wasn't stopped.")
    expect(
        seen["trains"] == turns,
        f"Training ended after iteration {seen['trains']}, not {turns}: stop once a mean reaches the target, or at `most`.",
    )
    want, got = [np.nan if mean is None else mean for mean in means[:turns]], seen["returned"]
    expect_close(
        got,
        want,
        f"You returned {got}. The check expects a list with one number per iteration: its mean return, or NaN if it has none.",
        atol=1e-6,
    )


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 4},
    hints=[
        "Start with the largest number: how do you sort the names 9 and 10? Before you load a folder, find out whether it's complete.",
        "List the files of two checkpoints of the same run (`Path.rglob`). Which are missing in the one without `learner_group`?",
        "Some incomplete folders raise an exception when you load them, and others don't, so look for the files.",
    ],
    spare=["    for path in sorted(Path(folder).iterdir(), reverse=True):"],
)
def resume_newest(answer: Answer, rng: Generator) -> None:
    """A checkpoint has several parts: before you continue from one, make sure that all of them are there."""
    length, seed, whole = int(rng.integers(5, 9)), int(rng.integers(10**6)), int(rng.choice([10, 11]))
    mark = rng.uniform(-0.3, 0.3, size=2).astype(np.float32).tolist()
    how = rng.permutation(["killed", "copied", "copied without the optimizer"]).tolist()
    cut = {str(whole + 1 + place): what for place, what in enumerate(how)}
    with answer.case(f"checkpoints {given.FIRST_SAVED} to {whole + 3}, of which {', '.join(cut)} are incomplete"):
        seen = answer.probe(given.resume_after_a_night, length, seed, whole, cut, mark)
        returned = seen["returned"]
        expect("continued" in seen, f"`resume_newest` returned {returned}, which has no `train` method.")
        came, steps = seen["continued"], (whole + 1) * given.BATCH
        kept, number, counted = came["after"]["iteration"], came["iteration"], came["steps"]
        expect(kept == whole, f"Your algorithm counts {kept} iterations; the newest complete checkpoint has {whole}.")
        _judge_memory(seen["before"], came["after"], mark)
        expect(
            number == whole + 1,
            f"When it was trained again, its next iteration was number {number}, which doesn't continue the checkpoint's count.",
        )
        expect(
            steps <= counted <= steps + 16 * (whole + 1),
            f"After one more iteration, it counts {counted} steps in all, but it should count about {steps}.",
        )


def _judge_memory(before: given.Memory, after: given.Memory, mark: list[float]) -> None:
    for place, weights in (("learner", after["learner"]), ("runner", after["runner"])):
        moved = _moved(before["learner"][: len(weights)], weights)  # an EnvRunner has no critic
        expect(moved < 1e-6, f"The weights in its {place} differ from the checkpoint's by up to {moved:.2g}.")
    expect(
        agree(after["mark"], mark, atol=1e-6),
        "The weights aren't those that the check set just before it saved the checkpoint.",
    )
    moved = _moved(before["optimizer"], after["optimizer"])
    expect(moved < 1e-6, "The weights are right, but the optimizer's averages aren't those of the checkpoint.")


def _moved(before: list[np.ndarray], after: list[np.ndarray]) -> float:
    """Return by how much the numbers of two lists of arrays differ at most; infinity where they are other arrays."""
    floats = all(part.dtype.kind == "f" for part in before + after)
    if not floats or [part.shape for part in before] != [part.shape for part in after]:
        return np.inf
    return max((float(np.abs(b - a).max(initial=0)) for b, a in zip(before, after, strict=True)), default=np.inf)


@exercise(
    points=2,
    minutes=10,
    hints=[
        "`flatten(space, obs)` returns the vector that the network expects, for each of these spaces.",
        "The network takes a batch of observations, a `float32` tensor, under the key `'obs'`. What is the shape of a batch of one?",
        "In the output, `'action_dist_inputs'` has one row per observation and one score per action. The best action has the largest score.",
    ],
)
def act(answer: Answer, rng: Generator) -> None:
    """Do what connectors did in training: flatten, make a batch of one, and turn scores into an action."""
    squares, numbers = int(rng.integers(17, 30)), int(rng.integers(3, 7))  # not FrozenLake's sixteen squares
    for kind, size in (("Box", [numbers]), ("Discrete", [squares]), ("Box", [2, numbers])):
        inputs, actions = int(np.prod(size)), int(rng.integers(3, 6))
        layers = _random_layers(rng, inputs, actions)
        if kind == "Discrete":
            observations: list = rng.permutation(squares).tolist()
            vectors = np.eye(squares)[observations]
        else:
            observations = rng.normal(size=(40, *size)).round(3).tolist()
            vectors = np.array(observations).reshape(40, inputs)
        scores = _scores(layers, vectors)
        got = answer.probe(given.act_on, kind, size, layers, observations)
        with answer.case(f"{len(observations)} observations from a {kind} space of size {size}; {actions} actions"):
            came, sent = len(got), len(observations)
            expect(came == sent, f"{came} actions came back for {sent} observations.")
            for obs, action, row in zip(observations, got, scores, strict=True):
                rounded = row.round(2).tolist()
                expect(isinstance(action, int), f"`act` returned {action}, and an environment needs an integer.")
                expect(
                    action == int(np.argmax(row)),
                    f"For the observation {obs}, the network's scores are {rounded}, and `act` returned {action}.",
                )


def _random_layers(rng: Generator, inputs: int, actions: int) -> list:
    """Return two layers whose best action changes from one observation to the next, and never by a hair."""
    while True:
        first = (rng.normal(0, 0.7, size=(8, inputs)), rng.normal(0, 0.3, size=8))
        last = (rng.normal(0, 1.0, size=(actions, 8)), rng.normal(0, 0.1, size=actions))
        probe = _scores([first, last], np.vstack([np.eye(inputs), rng.normal(size=(40, inputs))]))
        if len(set(probe.argmax(1).tolist())) >= 3:
            return [[part.astype(np.float32).tolist() for part in layer] for layer in (first, last)]


def _scores(layers: list, vectors: np.ndarray) -> np.ndarray:
    """Return a row of scores for each vector: the network of two layers, in NumPy."""
    (w, b), (v, c) = [[np.array(part) for part in layer] for layer in layers]
    return np.tanh(vectors @ w.T + b) @ v.T + c


@exercise(
    points=2,
    minutes=10,
    hints=[
        "For each seed, reset the environment with the seed, and then act and step until the episode ends. In which two ways can it end?",
        "The return is the sum of *all* rewards of the episode, not just the last one.",
        "Write a `while not (terminated or truncated)` loop around `env.step(act(network, env.observation_space, obs))`.",
    ],
    spare=["            over = terminated"],
)
def evaluate(answer: Answer, rng: Generator) -> None:
    """Run complete episodes with the best actions, each with its own seed, and keep every return."""
    rewards = rng.uniform([5, -4, -0.3], [9, -2, -0.1]).round(2).tolist()
    limit, seeds = int(rng.integers(25, 40)), rng.integers(10**6, size=25).tolist()
    layers = _lake_policy(rng)
    seen = answer.probe(given.play, layers, rewards, limit, seeds)
    got, begun, asked = seen["returned"], seen["episodes"], len(seeds)
    with answer.case(f"FrozenLake with the rewards {rewards} for goal, hole, and ice, at most {limit} steps, 25 seeds"):
        expect(isinstance(got, list | tuple | np.ndarray), f"`evaluate` returned {got!r:.60}, not a list of returns.")
        came, returns = len(got), expect_type(got, list[float], "returns")
        expect(came == asked, f"`evaluate` returned {came} numbers for {asked} seeds.")
        expect(begun == asked, f"`evaluate` started {begun} episodes for {asked} seeds.")
        for seed, mine in zip(seeds, returns, strict=True):
            best = _lake_return(layers, rewards, limit, seed)
            expect_close(
                mine,
                best,
                f"With seed {seed}, the best actions earn {best:.2f} in one episode, and you returned {mine:.2f}.",
                atol=1e-4,
            )


def _lake_policy(rng: Generator) -> list:
    """Return layers of a network that knows the lake: the best score leads by little, so that sampling is seen."""
    scores = rng.uniform(0, 0.3, size=(4, 16))
    scores[SLIPPERY, np.arange(16)] = 0.5
    first = [(4 * np.eye(16)).tolist(), np.zeros(16).tolist()]
    return [first, [scores.tolist(), np.zeros(4).tolist()]]


def _lake_return(layers: list, rewards: list, limit: int, seed: int) -> float:
    """Return what the best actions earn on the lake in the episode that begins with this seed."""
    env: gymnasium.Env = given.lake(rewards, limit)
    best = _scores(layers, np.eye(16)).argmax(1)
    obs, _ = env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        obs, reward, terminated, truncated, _ = env.step(int(best[obs]))
        total, over = total + float(reward), terminated or truncated
    return total


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 4},
    hints=[
        "Start from the colleague's config. When you build it, the error names the first thing that's missing.",
        "Compare `explore`, `gamma`, and `lr` with the values in `PPOConfig()` and in `corridor_config`.",
        "With `explore=False` in `.env_runners(...)`, the agent always takes the best action. Can it find anything new this way?",
    ],
)
def lake_config(answer: Answer, rng: Generator) -> None:
    """Repair all four faults together: the connector, exploration, the discount, and the learning rate."""
    batch = 250 * int(rng.integers(4, 9))
    wanted = {
        "algorithm": "PPO",
        "env": "FrozenLake-v1",
        "env_config": {"is_slippery": False},
        "num_env_runners": 0,
        "total_train_batch_size": batch,
        "hidden layers": [32],
    }
    judge_settings(answer, [batch], wanted)
    explore, gamma, lr = settings_of(answer, [batch], ["explore", "gamma", "lr"]).values()
    expect(
        explore is True,
        "The EnvRunner never explores: it takes the best action in every step, so all episodes of an iteration are the same.",
    )
    worth = expect_type(gamma, float, "gamma") ** 5
    expect(gamma >= 0.5, f"With gamma={gamma}, the goal six steps away is worth {worth:.3f} in the first step.")
    expect(
        not isinstance(lr, float) or lr >= 1e-4,
        f"The learning rate is {lr}, so an iteration hardly changes the weights.",
    )
    with answer.case("FrozenLake without slipping, seven iterations, up to three seeds"):
        problem = answer.probe(given.build_problem, batch)
        expect(not problem, f"RLlib can't build an algorithm from your config: {problem}")

        def train(seed: int) -> float:
            means = answer.probe(given.train_lake, batch, seed, 7)
            answer.keep_curve("iterations", enumerate(means, 1))
            return means[-1] if means else 0.0

        reached = best_of(train, rng, 0.5)
        expect(reached[-1] >= 0.5, f"The config didn't reach 0.5 with any seed: the last mean returns were {reached}.")


question(
    "first_iteration",
    """
    The first result of a training run has no `episode_return_mean`, or it's NaN. What does that tell you?

    a) The environment pays no rewards.
        Then the mean would be 0. A missing number isn't a zero.
    *b) No episode has ended yet, so there's no return to average.
        Right: a return is known when its episode has ended. Wait, or use a larger batch.
    c) The network has diverged.
        Then you'd see NaN among the learner's losses. Returns come from the environment.
    d) The EnvRunners have died.
        Look at `num_env_steps_sampled_lifetime`: it grows, so they're running.
    """,
)

question(
    "which_mean",
    """
    During training, `episode_return_mean` rose from 20 to 480. You run 100 test episodes with the best actions, and their mean return is 500. Which number do you report for the trained agent?

    a) 480, because RLlib measured it.
        In those episodes, the agent still explored, and its weights were from before the last update. With several EnvRunners, the number is also a mean of means.
    *b) 500, with the number of episodes and their spread.
        Right: fresh episodes, the final weights, and the best actions describe the agent that you deliver.
    c) The best of all the numbers that you've seen.
        The best of many noisy numbers is mostly noise, like the first good test in Chapter 10.
    """,
)

question(
    "what_a_checkpoint_lacks",
    """
    You train on `environment("mycranes.envs:Crane-v0")` and send a checkpoint's folder to a colleague who has the same version of Ray. On the colleague's machine, `Algorithm.from_checkpoint` fails. What is missing from the folder?

    a) The optimizer's state.
        It's there, with the learner: the check of `resume_newest` compared it.
    b) The settings of the config.
        They're in `class_and_ctor_args.pkl`, from which the new algorithm is built.
    *c) The code of your environment.
        Right: if the environment comes from a module, the folder has only its name. Your colleague must be able to import the module, too.
    d) The number of iterations.
        It's there: a restored algorithm continues to count.
    """,
)

question(
    "why_flatten",
    """
    You pass `torch.tensor([[5.0]])`, for square 5, to a network that was trained on FrozenLake, and it raises an error about shapes. Why?

    a) A network works only inside RLlib.
        It's a PyTorch module like any other, and you've just called one yourself.
    b) Square 5 is an integer, and 5.0 isn't.
        Networks compute with floats. The shape is the problem: how many inputs does this network's first layer have?
    *c) It was trained on one-hot vectors of sixteen numbers: a connector flattened the square, and here there's no connector.
        Right: whatever the connectors did on the way to the network is now up to you.
    """,
)
