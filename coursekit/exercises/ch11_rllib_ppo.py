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
        "Three things in this order: build, train in a loop, stop. Which of them must happen even if the middle one fails?",
        "`result['env_runners'].get('episode_return_mean', float('nan'))` has an answer even where no episode has ended.",
        "Is `float('nan') < 0.4` true? And `float('nan') >= 0.4`? Print both, and then choose how the loop ends.",
    ],
)
def learns_corridor(answer: Answer, rng: Generator) -> None:
    """Stop at a mean that reaches the target, which NaN never does; and stop the algorithm whatever happens."""
    _judge_scripts(answer, rng)
    length = int(rng.integers(5, 8))
    target = round(0.85 - 0.1 * (length - 2), 2)  # 0.15 less than the best policy earns
    with answer.case(f"PPO in a corridor of {length} squares, target {target}, at most 30 iterations"):
        reached = best_of(lambda seed: answer.probe(given.learn, length, seed, target, 30), rng, target)
        expect(reached[-1] >= target, f"With none of its seeds it got there: the last mean returns were {reached}.")


def _judge_scripts(answer: Answer, rng: Generator) -> None:
    """Check the loop on results written beforehand, which costs nothing."""
    target = float(rng.integers(2, 9))
    low = (target - rng.uniform(1, 4, size=4)).round(2).tolist()
    good, nan = round(target + float(rng.uniform(0.1, 0.9)), 2), float("nan")
    blank: list[float | None] = [None] * int(rng.integers(1, 4))
    most = int(rng.integers(5, 9))
    scripts = {
        "in some iterations no episode ends": ([*blank, low[0], nan, *low[1:], nan, nan, good, target + 2], 40),
        "the second mean return is the target": ([low[0], target, good], 40),
        "it never gets there": ([*blank, *low * 4], most),
    }
    for name, (means, turns) in scripts.items():
        with answer.case(f"{name}: mean returns {means}, target {target}, at most {turns} iterations"):
            _judge_script(answer.probe(given.follow_script, means, target, turns), means, target, turns)
    with answer.case("an algorithm whose environment breaks in the fourth iteration"):
        seen = answer.probe(given.follow_script, low, target, 40, breaks=True)
        expect(seen["stops"] >= 1, "It was not stopped after the error, so its EnvRunners would live on.")
        expect(seen["raised"], "The error never reached the caller. Stop the algorithm, and let the error pass.")


def _judge_script(seen: given.Followed, means: list, target: float, most: int) -> None:
    turns = min([*(turn for turn, mean in enumerate(means, 1) if mean is not None and mean >= target), most])
    expect(seen["builds"] == 1, f"The config was built {seen['builds']} times, not once.")
    expect(not seen["after_stop"], "The algorithm was trained after it had been stopped.")
    expect(seen["stops"] >= 1, "The algorithm was not stopped.")
    expect(
        seen["trains"] == turns,
        f"Training ended after iteration {seen['trains']}; it has to end after iteration {turns}. "
        "What is `nan >= target`, and what `nan < target`?",
    )
    want, got = [np.nan if mean is None else mean for mean in means[:turns]], seen["returned"]
    expect_close(got, want, f"You returned {got}. One number for each iteration, NaN where there is none.", atol=1e-6)


@exercise(
    points=3,
    minutes=15,
    needs={"CPU": 4},
    hints=[
        "Begin with the newest: how do you sort 9 and 10? Then ask of each folder, before you load it, whether it is whole.",
        "List the files of two checkpoints of one training (`Path.rglob`). What is missing in the one whose `learner_group` is gone?",
        "Loading tells you of some broken folders, with an exception, and keeps silent about others: look for the files.",
    ],
)
def resume_newest(answer: Answer, rng: Generator) -> None:
    """A checkpoint is its parts: before you continue from one, see that all of them are there."""
    length, seed, whole = int(rng.integers(5, 9)), int(rng.integers(10**6)), int(rng.choice([8, 9, 10]))
    mark = rng.uniform(-0.3, 0.3, size=2).astype(np.float32).tolist()
    how = rng.permutation(["killed", "copied"]).tolist()
    cut = {str(whole + 1): how[0], str(whole + 2): how[1]}
    said = " and ".join(
        f"{number} {'half saved' if what == 'killed' else 'half copied'}" for number, what in cut.items()
    )
    with answer.case(f"checkpoints 7 to {whole + 2}, {said}"):
        seen = answer.probe(given.resume_after_a_night, length, seed, whole, cut, mark)
        returned = seen["returned"]
        expect("continued" in seen, f"`resume_newest` returned {returned}, which cannot train on.")
        came, steps = seen["continued"], (whole + 1) * given.BATCH
        kept, number, counted = came["after"]["iteration"], came["iteration"], came["steps"]
        expect(kept == whole, f"What came back counts {kept} iterations; the newest whole checkpoint has {whole}.")
        _judge_memory(seen["before"], came["after"], mark)
        expect(number == whole + 1, f"The next iteration of the new one was number {number}.")
        expect(
            steps <= counted <= steps + 16 * (whole + 1),
            f"After one more iteration it counts {counted} steps in all.",
        )


def _judge_memory(before: given.Memory, after: given.Memory, mark: list[float]) -> None:
    for place, weights in (("learner", after["learner"]), ("runner", after["runner"])):
        moved = _moved(before["learner"][: len(weights)], weights)  # where it plays, there is no critic
        expect(moved < 1e-6, f"The weights in its {place} are not those of the old one: they moved by {moved:.2g}.")
    expect(
        agree(after["mark"], mark, atol=1e-6),
        "Its newest weights are missing: what came back is older than the last moment before you saved.",
    )
    moved = _moved(before["optimizer"], after["optimizer"])
    expect(moved < 1e-6, f"The weights are right, but the optimizer forgot what it knew: it moved by {moved:.2g}.")


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
        "`flatten(space, obs)` makes the vector that the network was trained on, for every kind of space.",
        "The network takes a batch of tensors under the key `'obs'`: what is the shape of a batch of one?",
        "The answer holds `'action_dist_inputs'`, one score for each action. The best action has the largest.",
    ],
)
def act(answer: Answer, rng: Generator) -> None:
    """Do yourself what connectors did: flatten, make a batch of one, and turn scores into an action."""
    squares, numbers = int(rng.integers(9, 30)), int(rng.integers(3, 7))
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
        with answer.case(f"{len(observations)} observations of the space {kind}, size {size}; {actions} actions"):
            came = len(got)
            expect(came == len(observations), f"{came} answers came back.")
            for obs, action, row in zip(observations, got, scores, strict=True):
                rounded = row.round(2).tolist()
                expect(
                    isinstance(action, int), f"`act` returned {action!r}, and an environment wants one whole number."
                )
                expect(
                    action == int(np.argmax(row)),
                    f"For {obs} the network's scores are {rounded}, and `act` chose {action}.",
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
        "One episode is: reset with its seed, then act and step until it ends. How many ways to end are there?",
        "The return is the sum of *all* rewards of the episode, not the last one.",
        "`while not (terminated or truncated)` around `env.step(act(network, env.observation_space, obs))`.",
    ],
)
def evaluate(answer: Answer, rng: Generator) -> None:
    """Play whole episodes with the best actions, each from a seed of its own, and keep every return."""
    rewards = rng.uniform([5, -4, -0.3], [9, -2, -0.1]).round(2).tolist()
    limit, seeds = int(rng.integers(25, 40)), rng.integers(10**6, size=25).tolist()
    layers = _lake_policy(rng)
    seen = answer.probe(given.play, layers, rewards, limit, seeds)
    got, begun = seen["returned"], seen["episodes"]
    with answer.case(f"FrozenLake with the rewards {rewards} for goal, hole and ice, at most {limit} steps, 25 seeds"):
        expect(isinstance(got, list | tuple | np.ndarray), f"`evaluate` returned {got!r:.60}, not a list of returns.")
        came, returns = len(got), expect_type(got, list[float], "returns")
        expect(came == len(seeds), f"`evaluate` returned {came} numbers, one is wanted for each seed.")
        expect(begun == len(seeds), f"{begun} episodes were begun.")
        for seed, mine in zip(seeds, returns, strict=True):
            best = _lake_return(layers, rewards, limit, seed)
            expect_close(
                mine,
                best,
                f"The best actions earn {best:.2f} in the episode of seed {seed}; you have {mine:.2f}.",
                atol=1e-4,
            )


def _lake_policy(rng: Generator) -> list:
    """Return layers of a network that knows the lake: the best direction leads by little, so that drawing is seen."""
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
        "Start from the colleague's config. The error when you build it names the first thing that is missing.",
        "`explore`, `gamma`, `lr`: look up what each says, and compare the three with `PPOConfig()` and with `corridor_config`.",
        "`explore=False` in `.env_runners(...)` means: always the best action. Is that a way to learn?",
    ],
)
def lake_config(answer: Answer, rng: Generator) -> None:
    """Repair all four at once: a connector, exploration, a future that counts, and steps that move the weights."""
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
        "The runner never explores: in all sixteen environments it plays the same episode, over and over.",
    )
    worth = expect_type(gamma, float, "gamma") ** 5
    expect(gamma >= 0.5, f"With gamma={gamma} the goal, six steps away, is worth {worth:.3f} in the first step.")
    expect(
        not isinstance(lr, float) or lr >= 1e-4, f"The learning rate is {lr}: an iteration hardly changes the weights."
    )
    with answer.case("FrozenLake without slipping, seven iterations, up to three seeds"):
        problem = answer.probe(given.build_problem, batch)
        expect(not problem, f"The config cannot be built: {problem}")
        reached = best_of(lambda seed: answer.probe(given.train_lake, batch, seed, 7), rng, 0.5)
        expect(reached[-1] >= 0.5, f"With none of its seeds it reached 0.5: the last mean returns were {reached}.")


question(
    "first_iteration",
    """
    The first result of a training run has no `episode_return_mean`, or it is NaN. What does that say?

    a) The environment pays no rewards.
        Then the mean would be 0. A missing number is not a zero.
    *b) No episode has ended yet, so there is no return to average.
        Right: a return is known when its episode is over. Wait, or take larger batches.
    c) The network has diverged.
        You would see NaN among the losses of the learner. Returns are the environment's.
    d) The EnvRunners have died.
        RLlib restarts them, and `num_healthy_workers` counts them. Look at `num_env_steps_sampled_lifetime`: steps were played.
    """,
)

question(
    "which_mean",
    """
    `episode_return_mean` went from 20 to 480 during training. You play 100 episodes with the best actions and get 500. Which number do you report for the trained agent?

    a) 480: RLlib measured it.
        In those episodes the agent still tried things, it played before the last update, and with several runners the number is a mean of means.
    *b) 500, with the number of episodes and their spread.
        Right: fresh episodes, the finished weights, the best actions. That is the agent you would hand over.
    c) The best of all numbers you saw.
        The best of many noisy numbers is mostly noise: chapter 10's first good test.
    """,
)

question(
    "what_a_checkpoint_lacks",
    """
    You trained on `environment("mycranes.envs:Crane-v0")` and send the folder of a checkpoint to a colleague with the same Ray. `Algorithm.from_checkpoint` fails there. What was missing from the folder?

    a) The optimizer's state.
        It is there, with the learner: the check of `resume_newest` compared it.
    b) The settings of the config.
        They are in `class_and_ctor_args.pkl`: the new algorithm is built from them.
    *c) The code of your environment.
        Right: of what lives in a module, the folder has only the name. The module must be importable there, too.
    d) The number of iterations.
        It is there: a restored algorithm continues to count.
    """,
)

question(
    "why_flatten",
    """
    On FrozenLake the trained network is asked with `torch.tensor([[5.0]])` for square 5, and raises an error about shapes. Why?

    a) A network can only be asked through RLlib.
        It is a PyTorch module like any other: you have just asked it yourself.
    b) Square 5 is an integer, and 5.0 is not.
        Networks compute with floats. The problem is the shape: how many inputs has its first layer?
    *c) It was trained on one-hot vectors of sixteen numbers: a connector flattened the square, and here there is none.
        Right: whatever connectors did on the way to the network is now up to you.
    """,
)
