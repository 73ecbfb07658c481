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
        "`images.mean(axis=0)` and `images.std(axis=0)` hold one number per pixel. Replace a deviation of 0 with 1: "
        "`np.where(std == 0, 1, std)`.",
        "A batch may be read-only, so return a new dict, `{**batch, 'image': ...}`, and convert the image with "
        "`.astype(np.float32)`.",
    ],
)
def Standardise(answer: Answer, rng: Generator) -> None:
    """The statistics come from the training rows and are computed once; every batch is transformed with the same ones."""
    # Long: the judge makes images with a mean and a deviation for each pixel, and tells nine mistakes apart.
    dead = rng.choice(64, size=5, replace=False)
    images = _images(rng, dead)
    for size in (1, 7, 30):
        batch = _batch(rng, size)
        with answer.case(f"made from 50 images; a batch of {size}"):
            seen = answer.probe(given.standardise, images, batch)
            kind = seen["kind"]
            expect(
                seen["is_dict"],
                f"`__call__` returned an object of type {kind}; it should return a dict with all columns.",
            )
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
        "page": rng.integers(100, 200, size=size),  # a column that the notebook does not have
    }


def _judge_batch(
    got: dict[str, np.ndarray], batch: dict[str, np.ndarray], images: np.ndarray, dead: np.ndarray
) -> None:
    """Compare a batch that came out with the formula; the pixels `dead` are the same in all training images."""
    _expect_columns(got, batch)
    image = got["image"]
    _expect_floats(image, batch["image"].shape)
    wanted = _standardized(batch["image"], images)
    of_the_batch = _standardized(batch["image"], batch["image"])
    _expect_formula(np.delete(image, dead, 1), *(np.delete(each, dead, 1) for each in (wanted, of_the_batch)))
    _expect_centered(image[:, dead], wanted[:, dead], dead)


def _standardized(pixels: np.ndarray, images: np.ndarray) -> np.ndarray:
    mean, std = images.mean(axis=0), images.std(axis=0)
    return (pixels - mean) / np.where(std == 0, 1, std)


def _expect_columns(got: dict[str, np.ndarray], batch: dict[str, np.ndarray]) -> None:
    """Check that all columns came back, those without pixels unchanged."""
    columns, missing = list(batch), [name for name in batch if name not in got]
    expect(not missing, f"The batch has the columns {columns}; the dict that came back lacks {missing}.")
    changed = [name for name in batch if name != "image" and not np.array_equal(got[name], batch[name])]
    expect(not changed, f"The columns {changed} came back changed; only `image` should change.")


def _expect_floats(image: np.ndarray, shape: tuple) -> None:
    expect(image.shape == shape, f"`image` came back with the shape {image.shape}; in the batch, its shape is {shape}.")
    expect(image.dtype == np.float32, f"`image` came back as {image.dtype}; the stage should return float32.")
    expect(
        np.isfinite(image).all(),
        "Some pixels came back as NaN or infinity. Pixels that are the same in all training images have a deviation of 0.",
    )


def _expect_formula(image: np.ndarray, wanted: np.ndarray, of_the_batch: np.ndarray) -> None:
    """Check the pixels that vary in the training images."""
    place = np.unravel_index(abs(image - wanted).argmax(), image.shape)
    got, want = image[place].item(), wanted[place].item()
    expect_close(
        image,
        wanted,
        f"A pixel came back as {got:.3f}. The mean and the deviation of this one pixel in the 50 images make it {want:.3f}.",
        rtol=0.015,  # `numpy.std` divides by N, `torch.std` and pandas by N - 1: both are right
        atol=1e-3,
        mistakes={"The pixels are standardized with the mean and the deviation of the batch itself.": of_the_batch},
    )


def _expect_centered(pixels: np.ndarray, wanted: np.ndarray, dead: np.ndarray) -> None:
    row, column = np.unravel_index(abs(pixels - wanted).argmax(), pixels.shape)
    number, got, want = int(dead[column]), pixels[row, column].item() + 0.0, wanted[row, column].item()
    expect_close(
        pixels,
        wanted,
        f"Pixel {number} is the same in all training images, and in this batch, it came back as {got:.4g}. With nothing but its mean subtracted, it's {want:.4g}.",
        rtol=1e-3,
        atol=1e-3,
    )


@exercise(
    points=3,
    minutes=12,
    needs={"CPU": 4},
    hints=[
        "Call `map_batches` twice, the second time on what the first call returns. Return the resulting dataset without running it.",
        "The first call needs only `clean`. The second takes the class `stage` itself, not an object made from it.",
        "Pass `fn_constructor_args=(images,)`, `batch_size=batch_size`, and `compute=ray.data.ActorPoolStrategy(size=actors)`.",
    ],
)
def pipeline(answer: Answer, rng: Generator) -> None:
    """Pass the class, not an object: Ray Data creates one object in each actor of the pool, when rows are needed."""
    blocks, batch_size, actors, offset = 12, int(rng.integers(3, 5)), 3, float(4 * rng.integers(2, 50))
    rows = _partly_broken(rng)
    with answer.case(f"72 rows in {blocks} blocks, 12 of them broken; batches of {batch_size}, a pool of {actors}"):
        seen = answer.probe(given.run_pipeline, rows, blocks, batch_size, actors, offset)
        _expect_only_a_plan(seen)
        _judge_results(seen["rows"], rows, offset, batch_size)
        made = seen["made"]
        expect(made == actors, f"`stage` was created {made} times; a pool of {actors} creates it {actors} times.")


def _partly_broken(rng: Generator) -> dict[str, np.ndarray]:
    return {
        "row": rng.choice(5000, size=72, replace=False),
        "image": rng.integers(0, 17, size=(72, 3)).astype(np.float32),
        "broken": rng.permutation(72) < 12,
    }


def _expect_only_a_plan(seen: given.Piped) -> None:
    """Check that a dataset came back before anything had run."""
    expect(seen["is_dataset"], f"`pipeline` returned a {seen['kind']}; it should return a dataset.")
    early = sorted({"stage" if event == "made" else event for event in seen["early"]})  # as the text calls it
    expect(early != ["stage"], "`pipeline` created the stage in your notebook; `map_batches` takes the class itself.")
    expect(not early, f"By the time `pipeline` returned, this had already run: {early}. It should return a plan.")


def _judge_results(came: list[given.Row], rows: dict[str, np.ndarray], offset: float, batch_size: int) -> None:
    """Compare the rows that came out of a pipeline with those that went in."""
    dirty = any(row.get("dirty") for row in came)
    expect(not dirty, "`stage` received broken rows; `clean` should drop them first.")
    whole = {name: column[~rows["broken"]] for name, column in rows.items()}
    wanted = dict(zip(whole["row"].tolist(), whole["image"] + offset, strict=True))
    returned, expected = len(came), len(wanted)
    expect_equal(
        sorted(row["row"] for row in came),
        sorted(wanted),
        f"{returned} rows came out. Each of the {expected} rows that aren't broken should come out once.",
    )
    got = {row["row"]: row["image"] for row in came}
    expect_close(got, wanted, "The images aren't those that an object made by `stage(images)` returns.")
    largest = max(row.get("size", 0) for row in came)
    expect(largest == batch_size, f"The largest batch for `stage` had {largest} rows; `batch_size` is {batch_size}.")


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
        "One worker waited forever, in a report or for gradients, probably because the other one had gone on or finished without it. "
        "All workers must take the same number of steps and report the same number of times.",
    )


def _expect_steps(workers: given.Pair) -> None:
    """Check that each worker took batches before each of its reports, and changed all weights of the network after each batch."""
    for rank, epochs in enumerate(workers):
        for epoch in epochs:
            taken, made = len(epoch["rows"]), len(epoch["step"])
            expect(
                0 < taken == made == len(epoch["before"]),
                f"Before one of its reports, worker {rank} took {taken} batches and {made} gradient steps. "
                "Each batch should be one step.",
            )
            kept = {(each.dtype.kind, each.shape) for each in epoch["before"] + epoch["step"]}
            changed = epoch["step"][0].size
            expect(
                kept == {("f", (650,))},
                f"The optimizer of worker {rank} updates {changed} numbers; `network()` has 650.",
            )


def _judge_epoch(number: int, pair: tuple[given.Epoch, given.Epoch], rows: dict, batch_size: int) -> None:
    """Both workers together take every row once, in whole batches, and step alike."""
    one, other = ([row for batch in worker["rows"] for row in batch] for worker in pair)
    _expect_each_row_once(number, one, other, rows)
    first, second = (len(worker["rows"][0]) for worker in pair)
    used = first + second
    expect(
        used == batch_size,
        f"The two workers used {first} and {second} rows for the first step, which makes {used}; the effective batch size is {batch_size}.",
    )
    made, too = (len(worker["step"]) for worker in pair)
    expect(
        made == too,
        f"In epoch {number}, the workers took {made} and {too} gradient steps; each step needs both workers.",
    )
    apart = abs(np.subtract(pair[0]["step"], pair[1]["step"])).max()
    expect(
        apart < 1e-5,
        f"In epoch {number}, the two workers' weights differ by up to {apart:.2g}; they should be equal after every step.",
    )


def _expect_each_row_once(number: int, one: list[int], other: list[int], rows: dict) -> None:
    first, second = len(one), len(other)
    expect_equal(
        sorted(one + other),
        sorted(rows["row"].tolist()),
        f"In epoch {number}, the workers took {first} and {second} rows. Together, they should take each row once.",
    )


def _judge_training(workers: given.Pair, rows: dict, config: dict, resumed: int = 0) -> None:
    """Compare all epochs of both workers with what one process computes from the same batches; `resumed` is the first after a restart."""
    for rank, worker in enumerate(workers):
        numbers, wanted = [epoch["report"].get("epoch") for epoch in worker], list(range(config["epochs"]))
        expect_equal(numbers, wanted, f"Worker {rank} reported the epochs {numbers}; they should be {wanted}.")
    _expect_steps(workers)
    pairs = list(zip(*workers, strict=True))
    for number, pair in enumerate(pairs):
        _judge_epoch(number, pair, rows, config["batch_size"])
    batches = [one + other for pair in pairs for one, other in zip(pair[0]["rows"], pair[1]["rows"], strict=True)]
    ends = np.cumsum([0, *(len(pair[0]["rows"]) for pair in pairs)])
    begin, lr = workers[0][0]["before"][0], config["lr"]
    weights, losses = _replay(rows, batches, begin, lr)
    plain, _ = _replay(rows, batches, begin, lr, momentum=0.0)
    restarted, _ = _replay(rows, batches, begin, lr, forgets=ends[resumed])
    _expect_weights(workers[0][-1]["step"][-1], weights, plain, restarted)
    told = [[worker["report"].get("loss") for worker in pair] for pair in pairs]
    _expect_losses(told, np.split(losses, ends[1:-1]))


def _expect_weights(got: np.ndarray, weights: np.ndarray, plain: np.ndarray, restarted: np.ndarray) -> None:
    place = abs(got - weights).argmax()
    one, right = got[place].item(), weights[place].item()
    expect_close(
        got,
        weights,
        f"In the end, a weight is {one:.4f}; with the gradient of each batch's mean loss, and of that batch alone, SGD with this learning rate and a momentum of 0.9 makes it {right:.4f}.",
        atol=1e-3,
        mistakes={
            "These are the weights of SGD without momentum.": plain,
            "These weights come from velocities that were zero again after the restart.": restarted,
        },
    )


def _expect_losses(told: list[list], epochs: list[np.ndarray]) -> None:
    """Compare the means of what both workers reported: each may report its own loss, or that of both."""
    plain = all(isinstance(loss, int | float) for loss in sum(told, []))
    expect(plain, f'The "loss" entries of the reports are {told}; they should be numbers.')
    got, wanted = np.mean(np.array(told, float), axis=1), np.array([losses.mean() for losses in epochs])
    losses, means = got.round(2).tolist(), wanted.round(2).tolist()
    expect_close(
        got,
        wanted,
        f"The workers reported losses of {losses}; the means over the batches of each epoch are {means}.",
        rtol=0.03,
        mistakes={
            "The reports have the loss of an epoch's last batch; they should have the mean.": [x[-1] for x in epochs],
            "The reports have the sum of an epoch's losses; they should have the mean.": [x.sum() for x in epochs],
        },
    )


def _replay(
    rows: dict, batches: list[list[int]], weights: np.ndarray, lr: float, momentum: float = 0.9, forgets: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights to which these batches lead one process, and the mean cross-entropy of each before its step.

    At the step number `forgets`, all velocities are zero.
    """
    place = {int(row): index for index, row in enumerate(rows["row"])}
    velocity, losses = np.zeros(650), []
    for number, chosen in enumerate([place[row] for row in batch] for batch in batches):
        images, right = rows["image"][chosen].astype(float), np.eye(10)[rows["label"][chosen]]
        odds = np.exp(images @ weights[:640].reshape(10, 64).T + weights[640:])
        odds /= odds.sum(axis=1, keepdims=True)
        losses.append(-np.log((odds * right).sum(axis=1)).mean())
        errors = (odds - right) / len(chosen)
        kept = 0.0 if number == forgets else momentum
        velocity = kept * velocity + np.concatenate([(errors.T @ images).ravel(), errors.sum(axis=0)])
        weights = weights - lr * velocity
    return weights, np.array(losses)


@exercise(
    points=4,
    minutes=20,
    hints=[
        "Three lines of a program for one process must change: the model is wrapped, the rows come from a shard, and each "
        "worker takes only its part of a batch.",
        "Call `prepare_model(network())`, and pass the parameters of what it returns to the optimizer.",
        "Call `shard = ray.train.get_dataset_shard('train')` once, and `shard.iter_torch_batches(batch_size=...)` in every epoch. "
        "`ray.train.get_context().get_world_size()` is the number of workers.",
        "Call `ray.train.report({'epoch': epoch, 'loss': loss})` in every worker, once per epoch.",
    ],
    spare=['    part = config["batch_size"]'],
)
def train_loop(answer: Answer, rng: Generator) -> None:
    """Write a loop for one process; then wrap the model, read from a shard, and divide the batch by the number of workers."""
    # Long: the rehearsal, which the chapter hands out, is two thirds of it: workers that share gradients without a Ray.
    rows, config = _problem(rng, epochs=3)
    with answer.case(f"two workers, {len(rows['row'])} rows, batches of 16, 3 epochs"):
        attempt = answer.probe(given.train_together, rows, config)
        _judge_end([attempt])
        _judge_training(attempt["workers"], rows, config)
    begin = attempt["workers"][0][0]["before"][0]
    with answer.case("one worker, batches of 16, one epoch, the same seed"):
        same = np.array_equal(_first_weights(answer.probe(given.train_alone, rows, config | {"epochs": 1})), begin)
        expect(
            same,
            "With the same seed, the network started with different weights. Set the seed before you create the network.",
        )
    with answer.case("one worker, batches of 16, one epoch, another seed"):
        again = config | {"epochs": 1, "seed": config["seed"] + 1}
        same = np.array_equal(_first_weights(answer.probe(given.train_alone, rows, again)), begin)
        expect(not same, 'With another `config["seed"]`, the network started with the same weights as before.')


def _first_weights(epochs: list[given.Epoch]) -> np.ndarray:
    """Return the weights with which a single worker began; it must take whole batches."""
    worked = epochs and epochs[0]["rows"] and epochs[0]["before"]
    expect(worked, "The worker reported no epoch in which it took a gradient step.")
    taken = len(epochs[0]["rows"][0])
    expect(taken == 16, f"A single worker used {taken} rows for its first step; the effective batch size is 16.")
    return epochs[0]["before"][0]


@exercise(
    points=4,
    minutes=25,
    hints=[
        "At the start, call `checkpoint = ray.train.get_checkpoint()`, which returns None in the first attempt. If it returns a "
        "checkpoint, read it in every worker: `with checkpoint.as_directory() as folder:`, and `torch.load(f'{folder}/state.pt')`.",
        "Besides the weights, the velocities and the epoch change, so save `optimizer.state_dict()` and the epoch, too. "
        "Decide whether you save the epoch that is finished or the next one.",
        "After each epoch, worker 0 writes the file into a `tempfile.TemporaryDirectory()` and reports "
        "`ray.train.Checkpoint.from_directory(folder)`. The others report `None` as their checkpoint.",
        "Keep a reference to the network: `net = network()`, then `model = prepare_model(net)`. Save and load `net.state_dict()`, "
        "or save and load that of `model`, but don't mix the two.",
    ],
)
def resume(answer: Answer, rng: Generator) -> None:
    """Save everything that changes (the weights, the optimizer's state, and the epoch), and load it in every worker."""
    # Long: the rehearsal, which the chapter hands out, is two thirds of it: workers that die and resume without a Ray.
    rows, config = _problem(rng, epochs=4)
    killed, step = int(rng.integers(2)), int(rng.integers(7, 9))
    with answer.case(f"two workers, 4 epochs of 3 steps; worker {killed} was killed after step {step}, in epoch 2"):
        attempts = answer.probe(given.train_with_a_death, rows, config, (killed, step))
        _judge_training(_judge_restart(attempts, list(range(config["epochs"]))), rows, config, resumed=2)
        saved, epochs = attempts[-1]["saved"], config["epochs"]
        expect(
            saved == epochs,
            f"In {epochs} epochs, {saved} checkpoints were reported; there should be one after each epoch.",
        )


def _judge_restart(attempts: list[given.Attempt], wanted: list[int]) -> given.Pair:
    """Return the epochs of each worker, up to the checkpoint and from there on; the second attempt must begin where it says."""
    _judge_end(attempts[:1])
    _expect_checkpoint(attempts)
    before, after = (attempt["workers"] for attempt in attempts)
    begins = [epochs[0]["report"].get("epoch") for epochs in after if epochs]
    expect(
        len(set(begins)) < 2,
        f"In the second attempt, the workers began in the epochs {begins}. Every worker must load the checkpoint.",
    )
    _judge_end(attempts[1:])
    for rank, epochs in enumerate(after):
        expect(epochs and before[rank], f"Worker {rank} reported no epoch in one of the two attempts.")
    _expect_steps(before)
    _expect_steps(after)
    for rank, epochs in enumerate(after):
        apart = abs(epochs[0]["before"][0] - before[rank][-1]["step"][-1]).max()
        expect(
            apart < 1e-5,
            f"After the restart, a weight of worker {rank} was {apart:.2g} away from its value at the last report before the restart.",
        )
        earlier, later = ([epoch["report"].get("epoch") for epoch in part] for part in (before[rank], epochs))
        expect_equal(
            earlier + later,
            wanted,
            f"Worker {rank} reported the epochs {earlier} before the restart, and {later} after it. The two lists together should be {wanted}, with each epoch once.",
        )
    return before[0] + after[0], before[1] + after[1]


def _expect_checkpoint(attempts: list[given.Attempt]) -> None:
    """Check that there was a second attempt, and that it had a model to resume from."""
    expect(len(attempts) == 2, "All workers finished before the check could kill one of them.")
    found = attempts[1]["began"] or given.Found(files=[], kind="NoneType", parts={})
    expect(attempts[1]["began"], "When the worker was killed, no checkpoint had been reported.")
    files, kind, keys = found["files"], found["kind"], list(found["parts"])
    expect("state.pt" in files, f"The checkpoint holds the files {files}; the state should be in `state.pt`.")
    expect(
        "model" in keys, f'`state.pt` holds a {kind} with the keys {keys}; it should hold a dict with the key "model".'
    )
    what = found["parts"]["model"]
    expect(
        what in ("dict", "OrderedDict"),
        f'"model" in `state.pt` is a {what}; save its `state_dict()`, which loads without the class.',
    )


question(
    "what_has_run",
    """
    `ds = ray.data.range(10**9).map_batches(f)` returned after a few milliseconds. How many times has `f` been called so far?

    *a) Never, because `ds` is a plan.
        Right: nothing is read or mapped until something needs rows.
    b) Once per block, because the tasks are running in the background.
        Tasks start as soon as you call `.remote()`. A dataset waits until something needs its rows.
    c) Once, to find out the types of the columns.
        `map_batches` only adds a step to the plan, and it doesn't need the types for that.
    """,
)

question(
    "effective_batch",
    """
    One process trains well with batches of 64. You start 8 workers, and each one calls `iter_torch_batches(batch_size=64)`. What changes, apart from the speed?

    a) Nothing, because the workers average their gradients, so the step is the same.
        The average of 8 gradients of 64 rows each is the gradient of 512 rows.
    *b) Each step now uses 512 rows, and an epoch has an eighth of the steps.
        Right: there are fewer steps, and they're less noisy. Divide the batch size by 8, or find a new learning rate.
    c) Each step uses 8 rows per worker.
        Ray Data doesn't divide the batch size that you set: each worker gets batches of 64 rows.
    """,
)

question(
    "the_odd_row",
    """
    There are 1,437 rows and two workers. Each worker gets 718 rows per epoch, and one row is left out. Why doesn't Ray Train give one worker 719 rows?

    a) The extra row would take too much memory.
        A single row takes very little memory. Think of what the workers do after each batch.
    b) The row is kept for validation.
        Ray Train doesn't set rows aside for validation: it leaves this row out.
    *c) With an extra row, that worker could have an extra batch, and it would wait for a gradient that never comes.
        Right: each step needs all workers. In batches of 2, 719 rows make one batch more than 718 rows do, and that worker would wait in vain.
    """,
)

question(
    "without_a_checkpoint",
    """
    A run has 10 epochs and `FailureConfig(max_failures=3)`, and its loop never reports a checkpoint. A worker dies in the last epoch. What happens?

    a) `fit` raises an error, because Ray Train can't restart workers without a checkpoint.
        Ray Train restarts the workers anyway. What does `get_checkpoint()` return to them?
    *b) The workers start again and train from epoch 0.
        Right: the restart works, and all the work is done again, so the run takes almost twice as long.
    c) The new workers take the weights of the worker that survived, because the weights are equal.
        That would be possible, but Ray Train stops the whole group and starts new processes, which have no weights yet.
    """,
)
