"""The judge's side of chapter 17."""

import numpy as np
from numpy.random import Generator

from coursekit.given import ch17_data_train as given
from coursekit.judging.answer import Answer
from coursekit.judging.exercise import exercise, question
from coursekit.judging.expect import expect, expect_close, expect_equal


@exercise(
    points=2,
    minutes=10,
    hints=[
        "What must the stage know before the first batch arrives? Compute it once, in `__init__`, from `images` alone.",
        "`images.mean(axis=0)` and `images.std(axis=0)` have one number for each pixel. Where the second is 0, put 1: "
        "`np.where(std == 0, 1, std)`.",
        "A batch is read-only. Return a new dict: `{**batch, 'image': ...}`, and `.astype(np.float32)`.",
    ],
)
def Standardise(answer: Answer, rng: Generator) -> None:
    """What a stage knows comes from the training rows, once; a batch only passes through."""
    # Long: the judge makes images with a mean and a deviation for each pixel, and tells eight mistakes apart.
    dead = rng.choice(64, size=5, replace=False)
    images = _images(rng, dead)
    for size in (1, 7, 30):
        batch = _batch(rng, size)
        with answer.case(f"made from 50 images; a batch of {size}"):
            seen = answer.probe(given.standardise, images, batch)
            expect(seen["is_dict"], f"`__call__` returned a {seen['kind']}; it must return a dict with all columns.")
            _judge_batch(seen["columns"], batch, images, dead)


def _images(rng: Generator, dead: np.ndarray) -> np.ndarray:
    """Return training images, each pixel with a mean and a deviation of its own; the pixels `dead` are the same in all."""
    scale, shift = rng.uniform(0.5, 4, size=64), rng.uniform(-5, 5, size=64)
    images = (rng.normal(size=(50, 64)) * scale + shift).astype(np.float32)
    images[:, dead] = np.round(shift[dead])
    return images


def _batch(rng: Generator, size: int) -> dict[str, np.ndarray]:
    return {
        "row": rng.choice(1000, size=size, replace=False),
        "image": (rng.normal(size=(size, 64)) * 3 + 1).astype(np.float32),
        "label": rng.integers(0, 10, size=size),
    }


def _judge_batch(
    got: dict[str, np.ndarray], batch: dict[str, np.ndarray], images: np.ndarray, dead: np.ndarray
) -> None:
    """Compare a batch that came out with the formula; the pixels `dead` are the same in all training images."""
    _expect_columns(got, batch)
    image, mean, std = got["image"], images.mean(axis=0), images.std(axis=0)
    _expect_floats(image, batch["image"].shape)
    wanted = (batch["image"] - mean) / np.where(std == 0, 1, std)
    expect_close(
        np.delete(image, dead, axis=1),
        np.delete(wanted, dead, axis=1),
        "Its pixels are not those of the formula. Which images give the mean and the deviation of a pixel?",
        rtol=0.015,  # `numpy.std` divides by N, `torch.std` and pandas by N - 1: both are right
        atol=1e-3,
    )
    _expect_centred(image[:, dead], wanted[:, dead], dead)


def _expect_columns(got: dict[str, np.ndarray], batch: dict[str, np.ndarray]) -> None:
    """Check that all columns came back, those without pixels unchanged."""
    missing = [name for name in batch if name not in got]
    expect(not missing, f"The batch that it returned lacks {missing}.")
    for name in ("row", "label"):
        expect_equal(got[name], batch[name], f"`{name}` must come out as it went in.")


def _expect_floats(image: np.ndarray, shape: tuple) -> None:
    expect(image.shape == shape, f"Its images have the shape {image.shape}.")
    expect(image.dtype == np.float32, f"The images are {image.dtype}; PyTorch's layers want float32.")
    expect(
        np.isfinite(image).all(),
        "Some numbers are not finite. Remember the pixels that are the same in all training images.",
    )


def _expect_centred(pixels: np.ndarray, wanted: np.ndarray, dead: np.ndarray) -> None:
    constant = sorted(dead.tolist())
    expect_close(
        pixels,
        wanted,
        f"The pixels {constant} are the same in all training images: such pixels should only be centred.",
        rtol=1e-3,
        atol=1e-3,
    )


@exercise(
    points=3,
    minutes=12,
    needs={"CPU": 4},
    hints=[
        "Call `map_batches` twice, the second time on what the first call returns. Return the result as it is: nothing may run yet.",
        "The first call gets `clean` and nothing else. The second gets the class `stage` itself, not an object made from it.",
        "`fn_constructor_args=(images,)`, `batch_size=batch_size`, and `compute=ray.data.ActorPoolStrategy(size=actors)`.",
    ],
)
def pipeline(answer: Answer, rng: Generator) -> None:
    """Hand over the class, not an object: Ray Data makes one object in each actor of the pool, when rows are needed."""
    blocks, batch_size, actors, offset = 12, int(rng.integers(3, 5)), 3, float(4 * rng.integers(2, 50))
    rows = _partly_broken(rng)
    with answer.case(f"72 rows in {blocks} blocks, 12 of them broken; batches of {batch_size}, a pool of {actors}"):
        seen = answer.probe(given.run_pipeline, rows, blocks, batch_size, actors, offset)
        _expect_only_a_plan(seen)
        _judge_results(seen["rows"], rows, offset, batch_size)
        made = seen["made"]
        expect(made == actors, f"Stages made: {made}, not {actors}. Each actor should pay for the slow start once.")


def _partly_broken(rng: Generator) -> dict[str, np.ndarray]:
    return {
        "row": rng.choice(5000, size=72, replace=False),
        "image": rng.integers(0, 17, size=(72, 3)).astype(np.float32),
        "broken": rng.permutation(72) < 12,
    }


def _expect_only_a_plan(seen: given.Piped) -> None:
    """Check that a dataset came back before anything had run."""
    expect(seen["is_dataset"], f"`pipeline` returned a {seen['kind']}; it must return a dataset.")
    early = sorted(set(seen["early"]))
    expect(early != ["made"], "`pipeline` itself made the stage. Does `map_batches` get the class, or an object?")
    expect(not early, f"When `pipeline` returned, this had run already: {early}. It must only write a plan down.")


def _judge_results(came: list[given.Row], rows: dict[str, np.ndarray], offset: float, batch_size: int) -> None:
    """Compare the rows that came out of a pipeline with those that went in."""
    dirty = any(row.get("dirty") for row in came)
    expect(not dirty, "The stage got broken rows: does `clean` come first?")
    whole = {name: column[~rows["broken"]] for name, column in rows.items()}
    wanted = dict(zip(whole["row"].tolist(), whole["image"] + offset, strict=True))
    returned, expected = len(came), len(wanted)
    expect_equal(
        sorted(row["row"] for row in came),
        sorted(wanted),
        f"{returned} rows came out; each of the {expected} whole rows must come out once.",
    )
    got = {row["row"]: row["image"] for row in came}
    expect_close(got, wanted, "These are not the results of a stage made from `images`.")
    largest = max(row.get("size", 0) for row in came)
    expect(largest == batch_size, f"The largest batch that the stage got had {largest} rows, not {batch_size}.")


def _problem(rng: Generator, epochs: int) -> tuple[dict, dict]:
    """Return rows and a configuration: three gradient steps an epoch, the last with fewer rows."""
    count = 44 + 2 * int(rng.integers(2))
    rows = {
        "row": rng.choice(5000, size=count, replace=False),
        "image": rng.normal(size=(count, 64)).astype(np.float32),
        "label": rng.integers(0, 10, size=count),
    }
    config = {"epochs": epochs, "batch_size": 16, "lr": float(rng.uniform(0.05, 0.15)), "seed": int(rng.integers(1000))}
    return rows, config


def _judge_end(attempts: list[given.Attempt]) -> None:
    expect(
        "stuck" not in [attempt["end"] for attempt in attempts],
        "A worker waited forever, in a report or for gradients: the other one had moved on without it, or ended. All workers "
        "must take the same number of steps and report equally often.",
    )


def _expect_steps(workers: given.Pair) -> None:
    """Check that each worker took batches until each of its reports, and after each batch changed all weights of the network."""
    for rank, epochs in enumerate(workers):
        for epoch in epochs:
            taken, made = len(epoch["rows"]), len(epoch["step"])
            expect(
                0 < taken == made == len(epoch["before"]),
                f"Until one of its reports, worker {rank} took {taken} batches and made {made} gradient steps: "
                "in an epoch, each batch is one step.",
            )
            kept = {(each.dtype.kind, each.shape) for each in epoch["before"] + epoch["step"]}
            changed = epoch["step"][0].size
            expect(
                kept == {("f", (650,))},
                f"The optimizer of worker {rank} changes {changed} numbers, not the 650 of `network()`.",
            )


def _judge_epoch(number: int, pair: tuple[given.Epoch, given.Epoch], rows: dict, batch_size: int) -> None:
    """Both workers together take every row once, in whole batches, and step alike."""
    one, other = ([row for batch in worker["rows"] for row in batch] for worker in pair)
    _expect_each_row_once(number, one, other, rows)
    first, second = (len(worker["rows"][0]) for worker in pair)
    used = first + second
    expect(
        used == batch_size,
        f"The first step used {first} and {second} rows, {used} in all; the effective batch is {batch_size}.",
    )
    made, too = (len(worker["step"]) for worker in pair)
    expect(made == too, f"In epoch {number} the workers made {made} and {too} gradient steps: each step needs both.")
    apart = abs(np.subtract(pair[0]["step"], pair[1]["step"])).max()
    expect(apart < 1e-5, f"In epoch {number} the two workers' weights were up to {apart:.2g} apart: two networks.")


def _expect_each_row_once(number: int, one: list[int], other: list[int], rows: dict) -> None:
    first, second = len(one), len(other)
    expect_equal(
        sorted(one + other),
        sorted(rows["row"].tolist()),
        f"In epoch {number} the workers took {first} and {second} rows. Each row must be taken once.",
    )


def _judge_training(workers: given.Pair, rows: dict, config: dict) -> None:
    """Compare all epochs of both workers with what one process computes from the same batches."""
    for rank, worker in enumerate(workers):
        numbers = [epoch["report"].get("epoch") for epoch in worker]
        expect_equal(numbers, list(range(config["epochs"])), f"Worker {rank} reported the epochs {numbers}.")
    _expect_steps(workers)
    pairs = list(zip(*workers, strict=True))
    for number, pair in enumerate(pairs):
        _judge_epoch(number, pair, rows, config["batch_size"])
    batches = [one + other for pair in pairs for one, other in zip(pair[0]["rows"], pair[1]["rows"], strict=True)]
    weights, losses = _replay(rows, batches, workers[0][0]["before"][0], config["lr"])
    _expect_weights(workers[0][-1]["step"][-1], weights)
    ends = np.cumsum([len(pair[0]["rows"]) for pair in pairs])
    means = [part.mean() for part in np.split(losses, ends[:-1])]
    _expect_losses([[worker["report"].get("loss") for worker in pair] for pair in pairs], means)


def _expect_weights(got: np.ndarray, weights: np.ndarray) -> None:
    expect_close(
        got,
        weights,
        "SGD with this learning rate and a momentum of 0.9 leads to other weights. What does SGD remember?",
        atol=1e-3,
    )


def _expect_losses(told: list[list], means: list[float]) -> None:
    """Compare the means of what both workers reported: each may report its own loss, or that of both."""
    plain = all(isinstance(loss, int | float) for loss in sum(told, []))
    expect(plain, f'The reports have these entries "loss": {told}; numbers are needed.')
    expect_close(
        np.mean(np.array(told, float), axis=1),
        means,
        "The reports do not have the mean loss over the batches of an epoch. Is it the last one, or a sum?",
        rtol=0.03,
    )


def _replay(rows: dict, batches: list[list[int]], weights: np.ndarray, lr: float) -> tuple[np.ndarray, list[float]]:
    """Return the weights to which these batches lead one process, and the mean cross-entropy of each before its step."""
    place = {int(row): index for index, row in enumerate(rows["row"])}
    velocity, losses = np.zeros(650), []
    for chosen in [[place[row] for row in batch] for batch in batches]:
        images, right = rows["image"][chosen].astype(float), np.eye(10)[rows["label"][chosen]]
        odds = np.exp(images @ weights[:640].reshape(10, 64).T + weights[640:])
        odds /= odds.sum(axis=1, keepdims=True)
        losses.append(-np.log((odds * right).sum(axis=1)).mean())
        errors = (odds - right) / len(chosen)
        velocity = 0.9 * velocity + np.concatenate([(errors.T @ images).ravel(), errors.sum(axis=0)])
        weights = weights - lr * velocity
    return weights, losses


@exercise(
    points=4,
    minutes=20,
    hints=[
        "Which three lines of a program for one process must change? The model is wrapped, the rows are a shard, and each "
        "worker takes only its part of a batch.",
        "`prepare_model(network())`; the optimizer gets the parameters of what that returns.",
        "`shard = ray.train.get_dataset_shard('train')`, and `shard.iter_torch_batches(batch_size=...)` again in every epoch. "
        "`ray.train.get_context().get_world_size()` is the number of workers.",
        "`ray.train.report({'epoch': epoch, 'loss': loss})` in every worker, once an epoch.",
    ],
)
def train_loop(answer: Answer, rng: Generator) -> None:
    """Write a loop for one process; then wrap the model, take your shard, and divide the batch."""
    # Long: the rehearsal, which the chapter hands out, is two thirds of it: workers that share gradients without a Ray.
    rows, config = _problem(rng, epochs=3)
    with answer.case(f"two workers, {len(rows['row'])} rows, batches of 16, 3 epochs"):
        attempt = answer.probe(given.train_together, rows, config)
        _judge_end([attempt])
        _judge_training(attempt["workers"], rows, config)
    with answer.case("one worker, batches of 16, one epoch, the same seed"):
        alone = answer.probe(given.train_alone, rows, config | {"epochs": 1})
        _judge_alone(alone, attempt["workers"][0][0]["before"][0])


def _judge_alone(epochs: list[given.Epoch], begin: np.ndarray) -> None:
    """Judge a single worker: it takes whole batches, and begins with the same weights."""
    worked = epochs and epochs[0]["rows"] and epochs[0]["before"]
    expect(worked, "The only worker reported no epoch in which it made a gradient step.")
    taken = len(epochs[0]["rows"][0])
    expect(taken == 16, f"The first gradient step used {taken} rows. Dividing by 2 fits two workers only.")
    same = np.array_equal(epochs[0]["before"][0], begin)
    expect(same, "It began with different weights than before. Do you set the seed before you make the network?")


@exercise(
    points=4,
    minutes=25,
    hints=[
        "At the start: `checkpoint = ray.train.get_checkpoint()` is None in the first attempt. Otherwise `with "
        "checkpoint.as_directory() as folder:` and `torch.load(f'{folder}/state.pt')`, in every worker.",
        "What changes from step to step, besides the weights? The velocity: save `optimizer.state_dict()` too. And the epoch: "
        "the one that is done, or the next one? Decide, and save it.",
        "After each epoch: worker 0 writes the file into a `tempfile.TemporaryDirectory()`, makes "
        "`ray.train.Checkpoint.from_directory(folder)`, and reports it; the others report `None` as their checkpoint.",
        "Save `model.module.state_dict()` and load it before `prepare_model`, or save and load the wrapped model's. Do not mix the two.",
    ],
)
def resume(answer: Answer, rng: Generator) -> None:
    """Save everything that changes: weights, the optimizer's state, and where to resume; load it in every worker."""
    # Long: the rehearsal, which the chapter hands out, is two thirds of it: workers that die and resume without a Ray.
    rows, config = _problem(rng, epochs=4)
    killed, step = int(rng.integers(2)), int(rng.integers(7, 9))
    with answer.case(f"two workers, 4 epochs of 3 steps; worker {killed} was killed after step {step}, in epoch 2"):
        attempts = answer.probe(given.train_with_a_death, rows, config, (killed, step))
        _judge_training(_judge_seam(attempts), rows, config)


def _judge_seam(attempts: list[given.Attempt]) -> given.Pair:
    """Return the epochs of each worker, up to the checkpoint and from there on; the second attempt must begin where it says."""
    _judge_end(attempts[:1])
    _expect_checkpoint(attempts)
    before, after = (attempt["workers"] for attempt in attempts)
    begins = [epochs[0]["report"].get("epoch") for epochs in after if epochs]
    expect(len(set(begins)) < 2, f"The second attempt began in the epochs {begins}: which workers load the checkpoint?")
    _judge_end(attempts[1:])
    for rank, epochs in enumerate(after):
        expect(epochs and before[rank], f"Worker {rank} reported an epoch in one attempt only: where does it resume?")
    _expect_steps(before)
    _expect_steps(after)
    for rank, epochs in enumerate(after):
        apart = abs(epochs[0]["before"][0] - before[rank][-1]["step"][-1]).max()
        expect(apart < 1e-5, f"Worker {rank} did not resume with the weights from the end of epoch 1.")
    return before[0] + after[0], before[1] + after[1]


def _expect_checkpoint(attempts: list[given.Attempt]) -> None:
    """Check that there was a second attempt, and that it had a model to resume from."""
    expect(len(attempts) == 2, "All workers ended too early: before the step after which one of them was to be killed.")
    found = attempts[1]["saved"]
    expect(found is not None, "No checkpoint had been reported by then: the second attempt had nothing to resume from.")
    saved = found or {}
    keys = list(saved)
    expect("model" in saved, f'The file `state.pt` needs a dict that has "model"; the keys of yours were {keys}.')
    expect(
        saved["model"] in ("dict", "OrderedDict"),
        f'"model" in `state.pt` is a {saved["model"]}: save its `state_dict()`, which loads without the class.',
    )


question(
    "what_has_run",
    """
    `ds = ray.data.range(10**9).map_batches(f)` returned after a few milliseconds. How often has `f` been called?

    *a) Not once: `ds` is a plan.
        Right: a dataset is a recipe. Reading, mapping and everything else begins when something asks for rows.
    b) Once for each block: the tasks are running in the background.
        Remote functions start at once. A dataset waits until something asks for rows.
    c) Once, to find out the types of the columns.
        Ray Data may do that when you print the schema, not when you write down a plan.
    """,
)

question(
    "effective_batch",
    """
    One process trains well with batches of 64. You start 8 workers, and each calls `iter_torch_batches(batch_size=64)`. What is different, apart from speed?

    a) Nothing: the workers average their gradients, so the step is the same.
        An average of 8 gradients of 64 rows each is the gradient of 512 rows.
    *b) A step is now made of 512 rows, and an epoch has an eighth of the steps.
        Right: fewer and less noisy steps. Divide the batch size by 8, or find a new learning rate.
    c) A step is made of 8 rows for each worker.
        Ray Data does not divide your batch size: it is what this one worker gets.
    """,
)

question(
    "the_odd_row",
    """
    1,437 rows, two workers: each is given 718 in every epoch, and one row is left out. Why doesn't Ray Train give one worker 719?

    a) It would take too much memory.
        One more row is nothing. Think of what the workers do after each batch.
    b) The row goes to the checkpoint's validation.
        Ray Train validates nothing by itself: it leaves the row out.
    *c) With one more row it could have one more batch, and would then wait for a gradient that never comes.
        Right: each step needs all the workers. With batches of 2, 719 rows are one batch more than 718, and the program hangs.
    """,
)

question(
    "without_a_checkpoint",
    """
    `FailureConfig(max_failures=3)`, 10 epochs, and the loop never reports a checkpoint. A worker dies in the last epoch. What happens?

    a) `fit` raises: without a checkpoint nothing can be restarted.
        Ray Train starts the workers again anyway. What do they find?
    *b) The workers start again, and train from epoch 0.
        Right: the restart works, and all the work is done again. Only the clock tells you.
    c) The other worker's weights are used, since they are equal.
        They would do, but Ray Train ends the whole group and starts new processes, which remember nothing.
    """,
)
