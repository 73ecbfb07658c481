"""The judge's side of chapter 17."""

import numpy as np
from numpy.random import Generator

from coursekit.answer import Answer
from coursekit.exercise import agree, exercise, expect, expect_close, expect_equal, quiz
from coursekit.given import ch17_data_train as given
from coursekit.result import plural

MOMENTUM = 0.9


@exercise(
    points=2,
    minutes=10,
    hints=[
        "What must be known before the first batch arrives? Compute it once, in `__init__`, from `images` alone.",
        "`images.mean(axis=0)` and `images.std(axis=0)` have one number for each pixel. Where the second is 0, put 1: "
        "`np.where(std == 0, 1, std)`.",
        "A batch is read-only. Return a new dict: `{**batch, 'image': ...}`, and `.astype(np.float32)`.",
    ],
)
def Standardise(answer: Answer, rng: Generator) -> None:
    """What a stage knows comes from the training rows, once; a batch only passes by."""
    scale, shift = rng.uniform(0.5, 4, size=64), rng.uniform(-5, 5, size=64)
    images = (rng.normal(size=(50, 64)) * scale + shift).astype(np.float32)
    dead = rng.choice(64, size=5, replace=False)
    images[:, dead] = np.round(shift[dead])
    sizes = [1, 7, 30]
    batches: list[dict[str, np.ndarray]] = [
        {
            "row": rng.choice(1000, size=size, replace=False),
            "image": (rng.normal(size=(size, 64)) * 3 + 1).astype(np.float32),
            "label": rng.integers(0, 10, size=size),
        }
        for size in sizes
    ]
    made = answer.probe(given.standardise, images, batches)
    std = images.std(axis=0)
    for batch, got in zip(batches, made, strict=True):
        told = f"`Standardise` was made from 50 images, and got a batch of {len(batch['row'])}. "
        expect(isinstance(got, dict), told + f"`__call__` returned a {got}; it must return a dict with all columns.")
        missing = [name for name in batch if name not in got]
        expect(not missing, told + f"What it returned lacks {missing}.")
        for name in ("row", "label"):
            expect_equal(got[name], batch[name], told + f"`{name}` must come out as it went in.")
        image = got["image"]
        expect(image.shape == batch["image"].shape, told + f"Its images have the shape {image.shape}.")
        finite = np.isfinite(image).all()
        expect(finite, told + "There are numbers that are not finite: some pixels are the same in all training images.")
        expect(image.dtype == np.float32, told + f"The images are {image.dtype}; PyTorch's layers want float32.")
        wanted = (batch["image"] - images.mean(axis=0)) / np.where(std == 0, 1, std)
        alive = np.setdiff1d(np.arange(64), dead)
        expect_close(
            image[:, alive],
            wanted[:, alive],
            told + "Its pixels are not those of the formula. Which images give the mean and the deviation of a pixel? "
            "(The deviation divides by N, as `numpy.std` does; `torch.std` and pandas divide by N - 1.)",
            rtol=1e-3,
            atol=1e-3,
        )
        expect_close(
            image[:, dead],
            wanted[:, dead],
            told
            + f"The pixels {sorted(dead.tolist())} are the same in all training images; here they are only centred.",
            rtol=1e-3,
            atol=1e-3,
        )


@exercise(
    points=3,
    minutes=12,
    hints=[
        "Two calls of `map_batches`, one after the other; the second is called on what the first returns. Return the result "
        "as it is: nothing may run yet.",
        "The first gets `clean` and nothing else. The second gets the class `stage` itself, not an object made of it.",
        "`fn_constructor_args=(images,)`, `batch_size=batch_size`, and `compute=ray.data.ActorPoolStrategy(size=actors)`.",
    ],
)
def pipeline(answer: Answer, rng: Generator) -> None:
    """Hand over the class, not an object: Ray Data makes one in each actor of the pool, when somebody asks for rows."""
    blocks, each, batch_size = 12, 6, 4
    count = blocks * each
    broken = np.zeros(count, bool)
    broken[np.arange(blocks) * each + rng.integers(each, size=blocks)] = True
    images = rng.integers(0, 17, size=(count, 3)).astype(np.float32)
    rows: dict[str, np.ndarray] = {
        "row": rng.choice(5000, size=count, replace=False),
        "image": images,
        "broken": broken,
    }
    offset = float(4 * rng.integers(2, 50))
    seen = answer.probe(given.run_pipeline, rows, blocks, 7, 1, offset, run=False)
    expect(seen["kind"] == "Dataset", f"`pipeline` returned a {seen['kind']}; it must return a dataset.")
    early = seen["early"]
    made_here = "`stage` had been made, here in your process: does `map_batches` get the class, or an object?"
    expect(early != ["made"], "When `pipeline` returned, " + made_here)
    expect(
        not early,
        f"When `pipeline` returned, {plural(len(early), 'thing')} had happened already; among them: {early[0] if early else ''}. "
        "Nothing may run before somebody asks for rows.",
    )
    plan, told = seen["plan"], "Asked for batches of 7 and a pool of 1, `pipeline` wrote down "
    arguments = plan.get("arguments", "tuple")
    expect(
        arguments in ("tuple", "list"),
        f"`fn_constructor_args` is a {arguments}; it must be a tuple, also where it holds a single argument.",
    )
    expect(plan.get("actors", [1, 1]) == [1, 1], told + f"a pool of {plan.get('actors', [1])[0]}.")
    sizes = (7, None, "auto")  # the last two, and what a step without a pool does, show in the batches
    expect(plan.get("batch_size") in sizes, told + f"batches of {plan.get('batch_size')}.")
    seen = answer.probe(given.run_pipeline, rows, blocks, batch_size, 2, offset)
    came = seen["rows"]
    told = f"{count} rows in {blocks} blocks, one row of each broken, batches of {batch_size}, a pool of 2. "
    keeps = {"row", "image", "size", "dirty"}
    expect(all(keeps <= set(row) for row in came), told + "Not every row that came out had been through the stage.")
    expect(
        not any(row["dirty"] for row in came),
        told + "The stage was given broken rows: have they been through `clean` by then?",
    )
    ids = sorted(row["row"] for row in came)
    wanted = sorted(rows["row"][~broken].tolist())
    expect_equal(
        ids, wanted, told + f"{len(ids)} rows came out, {len(set(ids) & set(wanted))} of the {len(wanted)} whole ones."
    )
    after = {row["row"]: row["image"] for row in came}
    for row, image in zip(rows["row"][~broken], images[~broken], strict=True):
        expect_close(
            after[int(row)], image + offset, told + "The stage must be made from `images`; its results are others."
        )
    largest = max(row["size"] for row in came)
    expect(largest == batch_size, told + f"The largest batch that the stage was given had {largest} rows.")
    expect(
        seen["made"] == 2,
        told
        + f"The stage was made {plural(seen['made'], 'time')}, not 2 times: its slow start is paid once for each actor.",
    )
    expect(seen["met"] == 2, told + "Two copies of the stage were never there at the same time.")


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


def _passes(log: list) -> list[list[int]]:
    """Return the rows of each pass of one worker."""
    passes: list[list[int]] = []
    for kind, *what in log:
        if kind == "pass":
            passes.append([])
        elif kind == "rows":
            passes[-1] += what[0]
    return passes


def _steps(log: list, until_report: bool = False) -> list[tuple[list[int], np.ndarray]]:
    """Return for each gradient step of a worker the rows since the step before, and the weights after it."""
    end = (
        max((place for place, entry in enumerate(log) if entry[0] == "report"), default=-1)
        if until_report
        else len(log)
    )
    steps: list[tuple[list[int], np.ndarray]] = []
    rows: list[int] = []
    for kind, *what in log[: end + 1]:
        if kind == "rows":
            rows = rows + what[0]
        elif kind == "step":
            steps.append((rows, np.asarray(what[0], float)))
            rows = []
    return steps


def _reports(log: list) -> list[dict]:
    return [what[0] for kind, *what in log if kind == "report"]


def _first(log: list, wanted: str, otherwise: np.ndarray) -> np.ndarray:
    return np.asarray(next((what[0] for kind, *what in log if kind == wanted), otherwise), float)


def _start(log: list) -> np.ndarray:
    return _first(log, "start", np.zeros(650))


def _judge_end(attempt: dict, told: str) -> None:
    end = attempt["end"]
    expect(end in ("done", "killed"), told + f"It got {end}. With Ray Train that would wait for ever.")


def _judge_begin(logs: list, told: str) -> None:
    """Both workers make the same network, before PyTorch gives them that of worker 0."""
    one, other = (_first(log, "made", _start(log)) for log in logs)
    expect(one.shape == other.shape == (650,), told + f"The network has {one.size} weights; `network()` has 650.")
    apart = float(abs(one - other).max())
    expect(
        apart == 0,
        told
        + f"The two workers made their networks with different weights, up to {apart:.2g} apart (`prepare_model` then "
        "gave both those of worker 0). What is the seed in each worker, and is it set before the network is made?",
    )


def _judge_passes(logs: list, rows: dict, told: str, passes: int) -> None:
    """Every pass of the two workers together takes every row once."""
    wanted = sorted(rows["row"].tolist())
    for number in range(passes):
        parts = [_passes(log)[number] if len(_passes(log)) > number else [] for log in logs]
        seen = sorted(parts[0] + parts[1])
        expect_equal(
            seen,
            wanted,
            told + f"In pass {number} over the rows the workers took {len(parts[0])} and {len(parts[1])} rows, "
            f"{len(set(seen))} different ones of {len(wanted)}. Every row must be taken once.",
        )


def _judge_equal(attempts: list, told: str) -> None:
    """After every step, both workers have the same weights."""
    for number, attempt in enumerate(attempts):
        steps = [_steps(log) for log in attempt["logs"]]
        for step, ((_, one), (_, other)) in enumerate(zip(*steps, strict=False)):
            expect(
                one.shape == other.shape == (650,), told + f"The network has {one.size} weights; `network()` has 650."
            )
            apart = float(abs(one - other).max())
            place = f"step {step}" if len(attempts) == 1 else f"step {step} of attempt {number + 1}"
            expect(
                apart < 1e-5,
                told + f"After {place} the two workers' weights were up to {apart:.2g} apart: two networks.",
            )


def _probabilities(weights: np.ndarray, images: np.ndarray) -> np.ndarray:
    """Return the softmax of one linear layer's scores, shape [rows, 10]; its numbers are in one array."""
    scores = images @ weights[:640].reshape(10, 64).T + weights[640:]
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def _gradient(weights: np.ndarray, images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the gradient of the mean cross-entropy of one linear layer, all its numbers in one array."""
    errors = _probabilities(weights, images)
    errors[np.arange(len(labels)), labels] -= 1
    return np.concatenate([(errors.T @ images / len(labels)).ravel(), errors.mean(axis=0)])


def _weights_without_a_death(attempts: list, rows: dict, lr: float) -> np.ndarray:
    """Return the weights to which the same batches lead in one process; of a killed attempt, what came before its last report."""
    place = {int(row): index for index, row in enumerate(rows["row"])}
    weights, velocity = _start(attempts[0]["logs"][0]), np.zeros(650)
    for attempt in attempts:
        steps = [_steps(log, until_report=attempt["end"] == "killed") for log in attempt["logs"]]
        for (one, _), (other, _) in zip(*steps, strict=True):
            chosen = [place[row] for row in one + other]
            gradient = _gradient(weights, rows["image"][chosen].astype(float), rows["label"][chosen])
            velocity = MOMENTUM * velocity + gradient
            weights = weights - lr * velocity
    return weights


def _loss(weights: np.ndarray, images: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean cross-entropy of one linear layer."""
    right = _probabilities(weights, images)[np.arange(len(labels)), labels]
    return float(-np.log(right).mean())


def _judge_losses(logs: list, rows: dict, told: str) -> None:
    """What a worker reports is the mean loss of its batches, or of its rows, or of both workers'."""
    place = {int(row): index for index, row in enumerate(rows["row"])}
    means = []  # [worker][report]: over batches, over rows
    for log in logs:
        steps = _steps(log, until_report=True)
        before = [_start(log), *(weights for _, weights in steps)]
        chosen = [[place[row] for row in batch] for batch, _ in steps]
        losses = [
            _loss(weights, rows["image"][batch].astype(float), rows["label"][batch])
            for weights, batch in zip(before, chosen, strict=False)
        ]
        each = len(losses) // len(_reports(log))
        parts = [slice(number * each, (number + 1) * each) for number in range(len(_reports(log)))]
        sizes = [len(batch) for batch in chosen]
        means.append([(np.mean(losses[part]), np.average(losses[part], weights=sizes[part])) for part in parts])
    for rank, log in enumerate(logs):
        for number, report in enumerate(_reports(log)):
            loss = report.get("loss")
            who = f"The report of worker {rank} for epoch {report.get('epoch')} has the loss {loss!r}: "
            expect(isinstance(loss, int | float), told + who + "a number is needed.")
            possible = [*means[rank][number], *np.mean([worker[number] for worker in means], axis=0)]
            expect(
                any(agree(loss, right, rtol=0.01) for right in possible),
                told
                + who
                + "it is not the mean over the batches of this epoch, each measured before its step. Is it the last one, or a sum?",
            )


def _apart(attempts: list, rows: dict, lr: float) -> float:
    last = _steps(attempts[-1]["logs"][0])[-1][1]
    return float(abs(last - _weights_without_a_death(attempts, rows, lr)).max())


@exercise(
    points=4,
    minutes=20,
    hints=[
        "Which three lines of a program for one process must change? The model is wrapped, the rows are a shard, and each "
        "worker takes only its part of a batch.",
        "`prepare_model(network())`; the optimizer gets the parameters of what that returns.",
        "`shard = ray.train.get_dataset_shard('train')`, and `shard.iter_torch_batches(batch_size=...)` anew in every epoch. "
        "`ray.train.get_context().get_world_size()` is the number of workers.",
        "`ray.train.report({'epoch': epoch, 'loss': loss})` in every worker, once an epoch.",
    ],
)
def train_loop(answer: Answer, rng: Generator) -> None:
    """Write a loop for one process; then wrap the model, take your shard, and share out the batch."""
    rows, config = _problem(rng, epochs=3)
    attempts = answer.probe(given.rehearse, rows, config)
    logs = attempts[-1]["logs"]
    told = f"Two workers, {len(rows['row'])} rows, batches of {config['batch_size']}, {config['epochs']} epochs. "
    _judge_end(attempts[-1], told)
    passes = [len(_passes(log)) for log in logs]
    expect_equal(passes, [3, 3], told + f"The workers went over their shards {passes[0]} and {passes[1]} times.")
    _judge_passes(logs, rows, told, 3)
    steps = [_steps(log) for log in logs]
    expect(steps[0] and steps[1], told + "No optimizer made a step.")
    together = len(steps[0][0][0]) + len(steps[1][0][0])
    expect(
        together == config["batch_size"],
        told
        + f"The first gradient step was made of {len(steps[0][0][0])} and {len(steps[1][0][0])} rows, {together} in all.",
    )
    _judge_equal(attempts, told)
    expect(
        _apart(attempts, rows, config["lr"]) < 1e-3,
        told
        + "The workers have equal weights in the end, but not those that SGD with this learning rate and a momentum of 0.9 finds.",
    )
    for rank, log in enumerate(logs):
        reports = _reports(log)
        epochs = [report.get("epoch") for report in reports]
        expect_equal(epochs, [0, 1, 2], told + f"Worker {rank} reported the epochs {epochs}.")
    _judge_losses(logs, rows, told)
    _judge_begin(logs, told)
    _judge_alone(answer.probe(given.rehearse, rows, config | {"epochs": 1, "seed": config["seed"] + 1}, None, 1), logs)


def _judge_alone(attempts: list, logs: list) -> None:
    """The same loop as the only worker, with another seed: nothing in it may count on two workers."""
    told, (log,) = "One worker, batches of 16, one epoch, another seed. ", attempts[-1]["logs"]
    _judge_end(attempts[-1], told)
    rows = len(_steps(log)[0][0]) if _steps(log) else 0
    expect(rows == 16, told + f"The first gradient step was made of {rows} rows: with two workers both numbers fit.")
    same = np.array_equal(_start(log), _first(logs[0], "made", _start(logs[0])))
    expect(not same, told + "It began with the weights that the other seed had given.")


@exercise(
    points=4,
    minutes=25,
    hints=[
        "At the start: `checkpoint = ray.train.get_checkpoint()` is None in the first attempt. Otherwise `with "
        "checkpoint.as_directory() as folder:` and `torch.load(f'{folder}/state.pt')`, in every worker.",
        "What changes from step to step, besides the weights? Momentum: save `optimizer.state_dict()` too. And the epoch: the "
        "one that is done, or the one to come next? Decide, and write it down.",
        "After each epoch: worker 0 writes the file into a `tempfile.TemporaryDirectory()`, makes "
        "`ray.train.Checkpoint.from_directory(folder)`, and reports it; the others report `None` as their checkpoint.",
        "Save `model.module.state_dict()`, and load it before `prepare_model`; or save and load that of the wrapped model. Not half of each.",
    ],
)
def resume(answer: Answer, rng: Generator) -> None:
    """Save everything that changes: weights, the optimizer's state, and where to go on; load it in every worker."""
    rows, config = _problem(rng, epochs=4)
    killed, step = int(rng.integers(2)), int(rng.integers(7, 9))
    attempts = answer.probe(given.rehearse, rows, config, (killed, step))
    told = f"Two workers, {len(rows['row'])} rows, 4 epochs of 3 steps; worker {killed} was killed after step {step}, in epoch 2. "
    first = attempts[0]
    _judge_end(first, told)
    done = len(_steps(first["logs"][killed]))
    expect(first["end"] == "killed", told + f"Only: it never came so far, it ended after {done} steps.")
    expect(len(attempts) == 2, told + "There was no second attempt.")
    second = attempts[1]
    expect(
        second["resumed"],
        told + "Until then no checkpoint had been reported, so the second attempt had nothing to go on from.",
    )
    keys = first["saved"]
    expect(
        "model" in keys,
        told + f'The checkpoint needs a file `state.pt` with a dict that has "model"; its keys were {keys}.',
    )
    begins = [_reports(log)[0].get("epoch") if _reports(log) else None for log in second["logs"]]
    expect(
        begins[0] == begins[1] or None in begins,
        told
        + f"In the second attempt worker 0 began with epoch {begins[0]}, worker 1 with epoch {begins[1]}: who loads the checkpoint?",
    )
    _judge_end(second, told + "In the second attempt: ")
    saved = [report.get("epoch") for report in _reports(first["logs"][0])]
    again = [report.get("epoch") for report in _reports(second["logs"][0])]
    expect_equal(saved, [0, 1], told + f"Before that, the epochs {saved} had been reported.")
    expect_equal(
        again,
        [2, 3],
        told + f"The last checkpoint was that of epoch 1; the second attempt reported the epochs {again}.",
    )
    _judge_passes(first["logs"], rows, told, 2)
    _judge_passes(second["logs"], rows, told + "In the second attempt: ", 2)
    before = _steps(first["logs"][0], until_report=True)[-1][1]
    for rank, log in enumerate(second["logs"]):
        apart = float(abs(_start(log) - before).max())
        expect(
            apart < 1e-5,
            told
            + f"At the end of epoch 1 the workers had certain weights; worker {rank} began again with others, up to {apart:.2g} apart.",
        )
    _judge_equal(attempts, told)
    _judge_begin(first["logs"], told)
    expect(
        _apart(attempts, rows, config["lr"]) < 1e-3,
        told
        + "It went on with the right weights, and then took another way than a run that nobody kills. What else does SGD remember?",
    )
    for attempt in attempts:
        _judge_losses(attempt["logs"], rows, told)


quiz(
    "what_has_run",
    """
    `ds = ray.data.range(10**9).map_batches(f)` returned after a few milliseconds. How often has `f` been called?

    *a) Not once: `ds` is a plan.
        Right: a dataset is a recipe. Reading, mapping and everything else begins when somebody asks for rows.
    b) Once for each block: the tasks are running in the background.
        That is what `ray.remote(f).remote()` would do. A dataset waits until somebody asks.
    c) Once, to find out the types of the columns.
        Ray Data may do that when you print the schema, not when you write down a plan.
    """,
)

quiz(
    "effective_batch",
    """
    One process trains well with batches of 64. You start 8 workers, and each calls `iter_torch_batches(batch_size=64)`. What is different, apart from speed?

    a) Nothing: gradients are averaged, so the step is the same.
        An average of 8 gradients of 64 rows each is the gradient of 512 rows.
    *b) A step is now made of 512 rows, and an epoch has an eighth of the steps.
        Right: fewer and less noisy steps. Divide the batch size by 8, or find a new learning rate.
    c) A step is made of 8 rows for each worker.
        Ray Data does not divide your batch size: it is what *this* worker gets.
    """,
)

quiz(
    "the_odd_row",
    """
    1,437 rows, two workers: each is given 718 in every epoch, and one row is left out. Why does Ray Train not give one worker 719?

    a) It would take too much memory.
        A row more is nothing. Think of what the workers do after each batch.
    b) The row is sent to the checkpoint's validation.
        Nothing is validated here: the row is simply left out.
    *c) With one row more it could have one batch more, and would then wait for a gradient that nobody sends.
        Right: each step needs all the workers. With batches of 2, 719 rows are one batch more than 718, and the program hangs.
    """,
)

quiz(
    "without_a_checkpoint",
    """
    `FailureConfig(max_failures=3)`, 10 epochs, and the loop never reports a checkpoint. A worker dies in the last epoch. What happens?

    a) `fit` raises: without a checkpoint nothing can be restarted.
        The workers are started again all the same. What do they find?
    *b) The workers start again, and train from epoch 0.
        Right: the restart works, and all work is done again. Nobody says so, only the clock.
    c) The other worker's weights are used, since they are equal.
        They would be good enough, but the whole group is ended and started anew: processes without a memory.
    """,
)
