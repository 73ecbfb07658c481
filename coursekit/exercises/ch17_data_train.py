"""The judge's side of chapter 17."""

import numpy as np
from numpy.random import Generator

from coursekit.answer import Answer
from coursekit.exercise import exercise, expect, expect_close, expect_equal, quiz
from coursekit.given import ch17_data_train as given


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
    dead = rng.choice(64, size=5, replace=False)
    images = _images(rng, dead)
    for size in (1, 7, 30):
        batch = _batch(rng, size)
        with answer.case(f"made from 50 images; a batch of {size}"):
            _judge_batch(answer.probe(given.standardise, images, batch), batch, images, dead)


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


def _judge_batch(got: dict, batch: dict[str, np.ndarray], images: np.ndarray, dead: np.ndarray) -> None:
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


def _expect_columns(got: dict, batch: dict[str, np.ndarray]) -> None:
    """Check that all columns came back, those without pixels unchanged."""
    expect(isinstance(got, dict), f"`__call__` returned a {got}; it must return a dict with all columns.")
    missing = [name for name in batch if name not in got]
    expect(not missing, f"The batch that it returned lacks {missing}.")
    for name in ("row", "label"):
        expect_equal(got[name], batch[name], f"`{name}` must come out as it went in.")


def _expect_floats(image: np.ndarray, shape: tuple) -> None:
    expect(image.shape == shape, f"Its images have the shape {image.shape}.")
    expect(
        np.isfinite(image).all(),
        "Some numbers are not finite. Remember the pixels that are the same in all training images.",
    )
    expect(image.dtype == np.float32, f"The images are {image.dtype}; PyTorch's layers want float32.")


def _expect_centred(pixels: np.ndarray, wanted: np.ndarray, dead: np.ndarray) -> None:
    expect_close(
        pixels,
        wanted,
        f"The pixels {sorted(dead.tolist())} are the same in all training images: such pixels should only be centred.",
        rtol=1e-3,
        atol=1e-3,
    )


@exercise(
    points=3,
    minutes=12,
    hints=[
        "Call `map_batches` twice, the second time on what the first call returns. Return the result as it is: nothing may run yet.",
        "The first call gets `clean` and nothing else. The second gets the class `stage` itself, not an object made from it.",
        "`fn_constructor_args=(images,)`, `batch_size=batch_size`, and `compute=ray.data.ActorPoolStrategy(size=actors)`.",
    ],
)
def pipeline(answer: Answer, rng: Generator) -> None:
    """Hand over the class, not an object: Ray Data makes one object in each actor of the pool, when rows are needed."""
    # Long: the judge's two stages must count what Ray Data does with them, in processes of its own.
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


def _expect_only_a_plan(seen: dict) -> None:
    """Check that a dataset came back before anything had run."""
    expect("rows" in seen, f"`pipeline` returned a {seen['kind']}; it must return a dataset.")
    early = sorted(set(seen["early"]))
    expect(early != ["made"], "`pipeline` itself made the stage. Does `map_batches` get the class, or an object?")
    expect(not early, f"When `pipeline` returned, this had run already: {early}. It must only write a plan down.")


def _judge_results(came: list[dict], rows: dict[str, np.ndarray], offset: float, batch_size: int) -> None:
    """Compare the rows that came out of a pipeline with those that went in."""
    dirty = any(row.get("dirty") for row in came)
    expect(not dirty, "The stage got broken rows: does `clean` come first?")
    whole = {name: column[~rows["broken"]] for name, column in rows.items()}
    wanted = dict(zip(whole["row"].tolist(), whole["image"] + offset, strict=True))
    ids = sorted(row["row"] for row in came)
    expect_equal(
        ids, sorted(wanted), f"{len(ids)} rows came out; each of the {len(wanted)} whole rows must come out once."
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


def _epochs(log: list) -> list[dict]:
    """Return what a worker did until each of its reports: the rows of each batch, the weights before and after each step."""
    epochs: list[dict] = []
    now: dict[str, list] = {"rows": [], "before": [], "step": []}
    for kind, *what in log:
        if kind in now:
            now[kind].append(what[0])
        elif kind == "report":
            if now["step"] and not now["rows"] and epochs:  # it kept its batches in a list, and took them again
                now["rows"] = epochs[-1]["rows"]
            epochs.append({**what[0], **now})
            now = {name: [] for name in now}
    return epochs


def _judge_end(attempt: dict) -> None:
    expect(
        attempt["end"] != "stuck",
        "A worker waited forever, in a report or for gradients: the other one had moved on without it, or ended. All workers "
        "must take the same number of steps and report equally often.",
    )


def _judge_epoch(number: int, pair: tuple[dict, dict], rows: dict, batch_size: int) -> None:
    """Both workers together take every row once, in whole batches, and step alike."""
    _expect_each_row_once(number, [[row for batch in worker["rows"] for row in batch] for worker in pair], rows)
    one, other = (len(worker["rows"][0]) for worker in pair)
    expect(
        one + other == batch_size,
        f"The first step used {one} and {other} rows, {one + other} in all; the effective batch is {batch_size}.",
    )
    apart = abs(np.subtract(pair[0]["step"], pair[1]["step"])).max()
    expect(apart < 1e-5, f"In epoch {number} the two workers' weights were up to {apart:.2g} apart: two networks.")


def _expect_each_row_once(number: int, taken: list[list], rows: dict) -> None:
    expect_equal(
        sorted(taken[0] + taken[1]),
        sorted(rows["row"].tolist()),
        f"In epoch {number} the workers took {len(taken[0])} and {len(taken[1])} rows. Each row must be taken once.",
    )


def _judge_training(workers: list[list[dict]], rows: dict, config: dict) -> None:
    """Compare all epochs of both workers with what one process computes from the same batches."""
    for rank, worker in enumerate(workers):
        numbers = [epoch.get("epoch") for epoch in worker]
        expect_equal(numbers, list(range(config["epochs"])), f"Worker {rank} reported the epochs {numbers}.")
    pairs = list(zip(*workers, strict=True))
    for number, pair in enumerate(pairs):
        _judge_epoch(number, pair, rows, config["batch_size"])
    batches = [one + other for pair in pairs for one, other in zip(pair[0]["rows"], pair[1]["rows"], strict=True)]
    weights, losses = _replay(rows, batches, workers[0][0]["before"][0], config["lr"])
    _expect_weights(workers[0][-1]["step"][-1], weights)
    _expect_losses([[worker.get("loss") for worker in pair] for pair in pairs], losses)


def _expect_weights(got: np.ndarray, weights: np.ndarray) -> None:
    expect_close(
        got,
        weights,
        "SGD with this learning rate and a momentum of 0.9 leads to other weights. What does SGD remember?",
        atol=1e-3,
    )


def _expect_losses(told: list[list], losses: list[float]) -> None:
    """Compare the mean of what both workers reported: each may report its own loss, or that of both."""
    plain = all(isinstance(loss, int | float) for loss in sum(told, []))
    expect(plain, f'The reports have these entries "loss": {told}; numbers are needed.')
    expect_close(
        np.mean(np.array(told, float), axis=1),
        np.reshape(losses, (len(told), -1)).mean(axis=1),
        "The reports do not have the mean loss over the batches of an epoch. Is it the last one, or a sum?",
        rtol=0.03,
    )


def _replay(rows: dict, batches: list, weights: np.ndarray, lr: float) -> tuple[np.ndarray, list]:
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
        (attempt,) = answer.probe(given.rehearse, rows, config)
        _judge_end(attempt)
        workers = [_epochs(log) for log in attempt["logs"]]
        _judge_training(workers, rows, config)
    with answer.case("one worker, batches of 16, one epoch, the same seed"):
        (alone,) = answer.probe(given.rehearse, rows, config | {"epochs": 1}, None, 1)
        _judge_alone(_epochs(alone["logs"][0])[0], workers[0][0]["before"][0])


def _judge_alone(epoch: dict, begin: np.ndarray) -> None:
    """Judge a single worker: it takes whole batches, and begins with the same weights."""
    taken = len(epoch["rows"][0])
    expect(taken == 16, f"The first gradient step used {taken} rows. Dividing by 2 fits two workers only.")
    same = np.array_equal(epoch["before"][0], begin)
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
        attempts = answer.probe(given.rehearse, rows, config, (killed, step))
        _judge_training(_judge_seam(attempts), rows, config)


def _judge_seam(attempts: list[dict]) -> list[list[dict]]:
    """Return the epochs of each worker, up to the checkpoint and from there on; the second attempt must begin where it says."""
    _judge_end(attempts[0])
    _expect_checkpoint(attempts)
    before, after = ([_epochs(log) for log in attempt["logs"]] for attempt in attempts)
    begins = [epochs[0].get("epoch") for epochs in after if epochs]
    expect(len(set(begins)) < 2, f"The second attempt began in the epochs {begins}: which workers load the checkpoint?")
    _judge_end(attempts[1])
    for rank, epochs in enumerate(after):
        apart = abs(epochs[0]["before"][0] - before[0][-1]["step"][-1]).max()
        expect(apart < 1e-5, f"Worker {rank} did not resume with the weights from the end of epoch 1.")
    return [one + other for one, other in zip(before, after, strict=True)]


def _expect_checkpoint(attempts: list[dict]) -> None:
    """Check that there was a second attempt, and that it had a model to resume from."""
    expect(len(attempts) == 2, "All workers ended too early: before the step after which one of them was to be killed.")
    saved = attempts[1]["saved"]
    expect(saved is not None, "No checkpoint had been reported by then: the second attempt had nothing to resume from.")
    expect(
        "model" in saved, f'The file `state.pt` needs a dict that has "model"; the keys of yours were {list(saved)}.'
    )
    expect(
        saved["model"] in ("dict", "OrderedDict"),
        f'"model" in `state.pt` is a {saved["model"]}: save its `state_dict()`, which loads without the class.',
    )


quiz(
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

quiz(
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

quiz(
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

quiz(
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
