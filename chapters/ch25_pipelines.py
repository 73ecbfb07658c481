# %% [markdown] you_learn_to="build pipelines that can be killed at any step and still publish exactly once"
r"""
# Chapter 25 · Durable pipelines

A pipeline can be killed at any step and still publish exactly once.

*About 95 minutes · builds on [Chapter 5](ch05_faults.ipynb) and [Chapter 19](ch19_operate.ipynb)*

**What you will be able to do**

- tell at-most-once, at-least-once, and exactly-once delivery apart by what happened;
- write a receiver that recognizes duplicates even after its process was killed;
- build a pipeline that can be killed at any moment and still has each effect once;
- measure what a driver's death costs, with and without checkpoints;
- say what Step Functions, Airflow, Temporal, and Prefect guarantee, and what they leave to you.
"""

# %%
import json
import os
import time
from pathlib import Path
from uuid import uuid4

import matplotlib.pyplot as plt
import numpy as np
import pandas
import ray

from coursekit import begin, budget, check, explain, hint, measured, passed, predict, progress, puzzle, quiz, review
from coursekit import solution, track, warm_up
from coursekit.given import ch25_pipelines as given
from coursekit.given.deaths import keep_news_of_deaths
from coursekit.given.folders import new_folder

begin("ch25_pipelines")

# %% tags=["demo"]
ray.shutdown()  # stops a Ray instance that's already running here: its references and actors are gone
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
warm_up(2)
news = keep_news_of_deaths()  # you're about to kill processes; Ray's reports go into this list

# %% [markdown] tags=["notes"]
r"""
The run sheet allots 95 minutes with all three exercises, and a break.
Start with a question: who has ever sent an email twice, or charged a customer twice?
Somebody always has, and there's always a retry in the story.
"""

# %% [markdown]
r"""
## A killed pipeline repeats steps, so they must be idempotent

Every night, a pipeline improves a policy.
It **collects** experience, **trains**, **evaluates**, and **publishes** the policy as a new version, which a service loads in the morning (Chapter 18).

The environment is CartPole, and a policy is four weights: the policy pushes the cart to the right if the dot product of weights and observation is positive, and to the left otherwise.
Training is one round of the [cross-entropy method](../docs/glossary.md#cross-entropy-method): try many random policies, keep the best eighth, and average their weights.
Each step is a plain function that may use Ray.
It takes the value that the previous step returned and a **key**, a string that names this step of this night's run.
"""


# %%
@ray.remote
def mean_return(weights, seeds):
    """Return a policy's mean return over one episode per seed."""
    return given.play_cartpole(weights, seeds)


def collect(value, key):
    """Return [weights, mean return] for each of many random policies; the key alone determines which policies."""
    rng = np.random.default_rng(list(key.encode()))
    policies = rng.normal(size=(budget(64, 32), 4)).tolist()
    returns = ray.get([mean_return.remote(weights, [0, 1]) for weights in policies])
    return [[weights, reached] for weights, reached in zip(policies, returns, strict=True)]


# %%
def train(tried, key):
    """Return the mean weights of the best eighth."""
    best = sorted(tried, key=lambda pair: pair[1])[-len(tried) // 8 :]
    return np.mean([weights for weights, _ in best], axis=0).tolist()


def evaluate(weights, key):
    """Return the policy with its mean return over ten new episodes."""
    returns = ray.get([mean_return.remote(weights, [seed]) for seed in range(100, 110)])
    return {"weights": weights, "return": float(np.mean(returns))}


# %% tags=["demo"]
def append_version(policy, key):
    """Append the policy to a list, and return its version, which is its place in that list."""
    versions.append(policy)
    return len(versions)


# %% [markdown]
r"""
`append_version` is a first attempt at publishing.
The next cell calls every step twice, with the same value and the same key.

**Predict:** for how many of the four steps does the second call change nothing?
"""

# %% tags=["demo"]
predict("harmless_repeats", ...)  # steps

# %% tags=["demo"]
versions, value, rows = [], None, []
for step in (collect, train, evaluate, append_version):
    key, start = f"night0-{step.__name__}", time.perf_counter()
    first, second = step(value, key), step(value, key)
    seconds = (time.perf_counter() - start) / 2
    rows.append({"step": step.__name__, "seconds per call": round(seconds, 2), "same result": first == second})
    value = first
display(pandas.DataFrame(rows))
print(f"versions after one night: {len(versions)}, with a mean return of {versions[0]['return']:.0f}")
measured("harmless_repeats", sum(row["same result"] for row in rows))

# %% [markdown]
r"""
Three: a second call of `collect`, `train`, or `evaluate` costs time but changes nothing.
Such a step is [idempotent](../docs/glossary.md#idempotent).
`collect` is idempotent because it derives its random numbers from the key.
`append_version` isn't, because each call adds a version.

This pipeline takes seconds; a real one takes hours, on machines that the cloud provider may take back at any moment.
If the pipeline is killed during the evaluation, you don't want to collect again, and you never want to publish the same policy twice.
This chapter is about the driver's death: its tasks end with it, and its objects are lost ([Chapter 5](ch05_faults.ipynb)).
`max_retries` doesn't help here, because the process that would launch the retries is gone.
"""

# %% [markdown]
r"""
## Totals hide lost and duplicated effects

A program ordered four emails, and four were sent.
That proves nothing, because one order may have led to two emails and another to none.
So count each order's effects separately:

| the effects of the orders | guarantee that fits |
|---|---|
| every order had exactly one | `"exactly once"` |
| no order had more than one, but some had none | `"at most once"` |
| every order had at least one, and some had more | `"at least once"` |
| some orders had none, and others had more than one | `"none"` |

A [delivery guarantee](../docs/glossary.md#delivery-guarantee) is a promise about every day.
One quiet day doesn't prove it, but one bad day disproves it.

Write `delivery_guarantee`, which takes the keys of the orders and the keys of the effects, and returns the strongest guarantee that still fits.
"""


# %%
def delivery_guarantee(orders, effects):
    """Return "exactly once", "at most once", "at least once", or "none".

    `orders` has the key of each order, all of them different; `effects` has the key of the order behind each effect,
    in the order in which the effects happened.
    """
    ### BEGIN SOLUTION
    counts = [effects.count(order) for order in orders]
    lost, duplicated = min(counts) == 0, max(counts) > 1
    if lost:
        return "none" if duplicated else "at most once"
    return "at least once" if duplicated else "exactly once"
    ### END SOLUTION


# %%
check("delivery_guarantee", delivery_guarantee)

# %% [markdown] tags=["solution"]
r"""
In the totals, one lost effect and one duplicate look like exactly once.
An audit that compares sums finds neither the customer who paid twice nor the one who never paid.
"""

# %% [markdown]
r"""
Here are three ways to write a step that sends an email and saves a checkpoint, which marks the step as done.
`given.mails_at_every_death` kills the step's process at one moment after another, each time with a new order, and then runs the step again.
The receiver drops an email whose key it has already seen, and for any other email, it records the order.

**Predict:** how many of the three ways deliver every email exactly once?
"""

# %% tags=["demo"]
predict("exactly_once_ways", ...)  # ways


# %%
def checkpoint_first(step):
    """Save the checkpoint, then send the email."""
    if not step.is_done():
        step.save()
        step.send(key=uuid4().hex)


def effect_first(step):
    """Send the email, then save the checkpoint."""
    if not step.is_done():
        step.send(key=uuid4().hex)
        step.save()


def effect_first_with_a_key(step):
    """Send the email with a key that is the same in every attempt, then save the checkpoint."""
    if not step.is_done():
        step.send(key=step.order)
        step.save()


# %% tags=["demo"]
if passed("delivery_guarantee"):
    guarantees = []
    for way in (checkpoint_first, effect_first, effect_first_with_a_key):
        orders, emails = given.mails_at_every_death(way)
        guarantees.append(delivery_guarantee(orders, emails))
        print(f"{way.__name__:24} {len(orders)} orders, {len(emails)} emails: {guarantees[-1]}")
    display(measured("exactly_once_ways", guarantees.count("exactly once")))

# %% [markdown]
r"""
![A death between the effect and the checkpoint: with the checkpoint first, the effect is lost; with the effect first, it happens twice; with a key, the receiver recognizes the duplicate](../img/ch25_promises.svg)

Only one way does, because the order of effect and checkpoint can't by itself close the gap between them.
With the checkpoint first, a death in the gap loses the email.
With the email first, a death in the gap sends it again.
The third way *sends* the email again, too, but the receiver recognizes the duplicate by its [idempotency key](../docs/glossary.md#idempotency-key).

So whenever you read [exactly once](../docs/glossary.md#exactly-once), take it apart.
If a step runs **at least once**, and the receiver counts each key **once**, the effect happens exactly once.
One half is the pipeline's job and the other is the receiver's, and you're about to write both.
A receiver that ignores keys, such as a plain mail server, leaves you to choose between at most once and at least once.
"""

# %%
### BEGIN SOLUTION
between_effect_and_checkpoint = "b"
### END SOLUTION

# %%
quiz("between_effect_and_checkpoint", between_effect_and_checkpoint)

# %% [markdown]
r"""
## Only the receiver can recognize a duplicate

Our pipeline's receiver is a [model registry](../docs/glossary.md#model-registry), which numbers the published policies: version 1, 2, 3, and so on.
A service loads the latest version, and if you find a fault in it next month, you go back to the one before.

In Chapter 5, `Ledger` kept its keys in memory.
A receiver that outlives its process needs its keys *and* its effects on disk.
If it dies between saving the two, a key without its policy means that the policy is lost, and a policy without its key will be published again.
So save both in one file, with an [atomic rename](../docs/glossary.md#atomic-rename): write a temporary file beside the registry, close it, and call `os.replace(new, path)`.

Write `publish_once`, which takes the registry's path, a key, and a policy, and returns the policy's version.
The registry is a list in JSON, with the latest version last: `[{"key": "night1-publish", "version": 1, "policy": [0.2, ...]}, ...]`.
At first, the file doesn't exist.
The check kills the process at different moments (just after it has opened a file for writing, or renamed or removed one) and then makes the same call again.
"""


# %%
def publish_once(path, key, policy):
    """Add a policy to the registry, the file `path`, as its latest version, and return that version.

    If the registry has the key already, change nothing and return the version that this key got before.
    """
    ### BEGIN SOLUTION
    entries = []
    if os.path.exists(path):
        with open(path) as file:
            entries = json.load(file)
    for entry in entries:
        if entry["key"] == key:
            return entry["version"]
    entries.append({"key": key, "version": len(entries) + 1, "policy": policy})
    with open(f"{path}.new", "w") as file:
        json.dump(entries, file)
    os.replace(f"{path}.new", path)
    return len(entries)
    ### END SOLUTION


# %%
check("publish_once", publish_once)

# %% [markdown] tags=["solution"]
r"""
A database does the same with a unique key and a transaction, and it also handles two senders at once.
Our file doesn't: both would read the same list, and the second rename would drop the version that the first rename added.
Payment services accept such a key with each payment, but many forget it after a while, often a day, and then a repeat counts again.
"""

# %%
### BEGIN SOLUTION
what_a_key_is_made_of = "c"
### END SOLUTION

# %%
quiz("what_a_key_is_made_of", what_a_key_is_made_of)

# %% [markdown]
r"""
## A step with a saved result is never called again

The other half is the pipeline.
Ray's library for this, `ray.workflow`, has been removed ([Old names](../docs/old_names.md)), but you can build [durable execution](../docs/glossary.md#durable-execution) in a dozen lines, from three parts that you know:

- a [checkpoint](../docs/glossary.md#checkpoint) for each step: a file with its result, which is complete once it has its final name;
- a **key** for each step of each run: it's the same in every attempt, and it's sent along with the effect;
- a **retry**: it starts the run from the top and skips every step that has a checkpoint.

![If a step's process dies before the rename, the step runs again, and its key makes the repeat harmless](../img/ch25_durable.svg)

Write `durable_pipeline`, which takes the steps, the name of the run, and a folder, and returns the last step's result.
Call each step as `function(value, key)`: `value` is the previous step's result (None for the first step), and `key` is a string that no other step or run has.
Results are JSON values: lists, dicts, strings, numbers, or None.
The names of runs and steps consist of letters and digits, and several runs may share the folder.

The check runs your pipeline in separate processes, so call the functions directly, without Ray.
It kills each of them at a different moment: when a step has started, when its effect has happened, or when a file in the folder has been opened for writing, renamed, or removed.
"""


# %%
def durable_pipeline(steps, run, folder):
    """Return the result of the last step; `steps` is a list of (name, function), `run` a name, `folder` an existing folder.

    After a death, the same call finishes the run: a step whose result was saved is not called again.
    If a step raises, so does this call, and the next call repeats that step.
    """
    ### BEGIN SOLUTION
    value = None
    for name, function in steps:
        key = f"{run}-{name}"
        path = os.path.join(folder, f"{key}.json")
        if os.path.exists(path):
            with open(path) as file:
                value = json.load(file)
            continue
        value = function(value, key)
        with open(f"{path}.new", "w") as file:
            json.dump(value, file)
        os.replace(f"{path}.new", path)
    return value
    ### END SOLUTION


# %%
check("durable_pipeline", durable_pipeline)

# %% [markdown] tags=["solution"]
r"""
A power failure stops the operating system, too.
To survive it, call `os.fsync` on the file before the rename, and on the folder after it.
On a cluster, the folder must be on storage that all nodes can reach.
In an object store such as S3, you need no rename, because an upload appears whole or not at all.
If a result is large, save it in a separate file, and put the file's name into the checkpoint.
"""

# %%
### BEGIN SOLUTION
two_drivers = "b"
### END SOLUTION

# %%
quiz("two_drivers", two_drivers)

# %% [markdown]
r"""
## Kill the driver at every step

Now every attempt at the night's run gets its own driver.
`given.drive` starts a new Python process, which joins your Ray and runs the pipeline.
`given.World` is a journal in a file, so it survives every death.
`kills_its_driver` wraps a step: the first time the step is called, the driver dies by `SIGKILL` at the worst moment, between the effect and the checkpoint.
Starting all of the drivers takes about half a minute.
"""


# %%
def kills_its_driver(work, world):
    """Return a step that records its call, does its work, and kills its driver the first time, before the result is saved."""
    name = work.__name__

    def call(value, key):
        world.record(called=name)
        result = work(value, key)
        world.dies_once(name)
        return result

    return name, call


# %%
REGISTRY = os.path.join(new_folder(), "registry.json")


def publish(policy, key):
    """Return the policy's version in the registry."""
    return publish_once(REGISTRY, key, policy)


# %% [markdown]
r"""
**Predict:** each of the four steps kills its driver once.
How many drivers does it take to finish the run?
"""

# %% tags=["demo"]
predict("drivers", ...)  # drivers

# %% tags=["demo"]
if passed("durable_pipeline") and passed("publish_once"):
    world, folder = given.World(), new_folder()
    deadly = budget([collect, train, evaluate, publish], [collect, publish])  # quick mode kills two drivers, not four
    steps = [
        kills_its_driver(work, world) if work in deadly else (work.__name__, work)
        for work in (collect, train, evaluate, publish)
    ]
    for drivers in track(range(1, 10), "starting drivers"):
        end = given.drive(durable_pipeline, steps, "night1", folder)
        print(f"driver {drivers}: {end}")
        if end == "done":
            break
    journal = pandas.DataFrame(world.journal())
    display(journal[["called", "died"]].apply(lambda column: column.value_counts()).fillna(0).astype(int))
    for entry in json.loads(Path(REGISTRY).read_text()):
        print(f"version {entry['version']}: {entry['key']}, mean return {entry['policy']['return']:.0f}")
    display(measured("drivers", drivers))

# %% [markdown]
r"""
It takes one more driver than there are deaths.
A step that killed its driver was called twice, and a step with a saved result was never called again.
`publish` sent its policy to the registry twice, too, but the registry has only one version.

The `for` loop is the *retry*, and something outside the driver has to run it.
On a cluster, submit the driver as a job (Chapter 6), and let cron, Kubernetes, or a workflow system submit it again.
If you only need to survive the death of a worker or its node, Ray can do the retries: run the whole pipeline as *one task* that reserves no CPU.
"""

# %% tags=["demo"]
if passed("durable_pipeline") and passed("publish_once"):
    world = given.World()
    steps = [("collect", collect), kills_its_driver(train, world), ("evaluate", evaluate), ("publish", publish)]
    task = ray.remote(durable_pipeline).options(max_retries=-1, num_cpus=0)
    version = ray.get(task.remote(steps, "night2", folder))
    calls = [row["called"] for row in world.journal() if "called" in row]
    print(f"version {version}, after {len(calls)} calls of train")
    print(news.wait().partition(".")[0])

# %% [markdown]
r"""
Now a worker process runs the pipeline.
When it dies, Ray runs the task again, on another node if necessary, and the checkpoints do the rest.
If a step *raises*, the task fails, as Chapter 5 explains; fix the cause, and launch the task again with the same run name.
"""

# %% [markdown]
r"""
## A checkpoint limits the lost work to one step

What does a death cost?
The next cell scales a night down to half a second of sleep: collecting takes half of it, training a quarter, evaluating a sixth, and publishing a twelfth.
It kills the pipeline's process at a different moment of each night and starts it again.
That takes about 20 s.

**Predict:** if a night without a death has length 1, how long is the longest night with checkpoints?
"""

# %% tags=["demo"]
predict("longest_night", ...)  # nights


# %%
def from_the_top(steps, run, folder):
    """Return the result of the last step; every attempt repeats all of the steps."""
    value = None
    for name, function in steps:
        value = function(value, f"{run}-{name}")
    return value


# %% tags=["demo"]
if passed("durable_pipeline"):
    whole, moments = 0.5, budget(12, 4)
    seconds = {"collect": whole / 2, "train": whole / 4, "evaluate": whole / 6, "publish": whole / 12}
    figure, axes = plt.subplots(figsize=(7.5, 3.4), constrained_layout=True)
    for pipeline in track([from_the_top, durable_pipeline], "killing pipelines"):
        died, took = np.transpose(given.nights(pipeline, seconds, moments)) / whole
        axes.plot(died, took, "o-", label=pipeline.__name__, color={from_the_top: "#db2777"}.get(pipeline, "#2563eb"))
    for end in np.cumsum(list(seconds.values()))[:-1] / whole:
        axes.axvline(end, color="#94a3b8", linestyle="--")  # a step ends here, and the next one starts
    axes.set(xlabel="moment of the death, in nights (dashed: a step ends)", ylabel="length of the night, in nights")
    axes.set_title("With checkpoints, a death repeats at most one step")
    axes.legend(frameon=False)
    display(measured("longest_night", max(took)))

# %% [markdown]
r"""
Without checkpoints, a death repeats all of the work so far, so the longest night lasts nearly two nights.
With checkpoints, it repeats only the step that was running, so it costs half a night at most: the time that collecting takes.
The curve drops after every dashed line, and its highest peak belongs to the step to improve next: split that step, or let it save intermediate checkpoints, as training does in Chapter 17.

If you save too often, the checkpoints cost more than they save.
Young's rule of thumb balances the two: if saving takes *C* seconds, and a failure happens every *M* seconds on average, save every √(2·*C*·*M*) seconds.
With 10 s per checkpoint and a failure per day, that's every 22 minutes.
"""

# %% [markdown]
r"""
## Exactly-once guarantees end where the system ends

If you have many pipelines, use a [workflow system](../docs/glossary.md#workflow-system), and let its steps submit Ray jobs.
The documentation of four systems said this in November 2026:

| system | how many times a step runs | left to you |
|---|---|---|
| Step Functions, Standard | *exactly once*, unless its definition has a `Retry` | what a failed step did |
| Step Functions, Express | *at least once* if started asynchronously, *at most once* if synchronously | idempotent steps |
| Airflow | once, plus up to `retries` times after failures (default 0) | tasks that are like transactions |
| Temporal | at least once, without a limit by default, but *observed as completed* exactly once | idempotent steps; the run ID and the activity ID make a key |
| Prefect | as in Airflow, but not at all if a saved result has the same cache key | turning on retries and saved results |

Only Temporal retries a failed step by default.
If steps are retried, they run *at least once*, as in your pipeline.
If they aren't, an effect outside the system happens *at most once*: when a machine dies, its step counts as failed, and only the outbox shows whether the email was sent.
A system can count its own records exactly once, by updating them in one transaction.
That transaction can't include somebody else's mail server, so these systems need your key, too.
"""

# %%
### BEGIN SOLUTION
what_exactly_once_means = "b"
### END SOLUTION

# %%
quiz("what_exactly_once_means", what_exactly_once_means)

# %% [markdown] tags=["notes"]
r"""
AWS says "exactly once" about a Standard workflow, and our quiz says "at most once" about the email.
Both are right: the execution is recorded exactly once, and a side effect outside happens at most once.
Ask which system people use at work, and together, look up its default number of retries.
"""

# %% tags=["demo"]
ray.shutdown()

# %% tags=["demo"]
progress()

# %% [markdown]
r"""
## What you can do now

- You can tell, order by order, which delivery guarantee still fits what happened.
- You can write a receiver that saves keys and effects together and survives its own death.
- You can build a pipeline that can be killed anywhere, and you've killed its driver at every step.
- You know what a death costs, and which step to split.
- You can say where a system's guarantee ends.

## Traps

- **A new key in each attempt** duplicates effects, and so does a key made with `hash`, because by default every Python process hashes strings differently.
- **A key without the run's name** publishes one night and drops all later ones.
- **A result of None, 0, or `[]`** is a result: test whether its file exists.
- **Two drivers of one run** both call its steps.
  A lock keeps the second driver out.
  A [lease](../docs/glossary.md#lease) can expire while the first driver only hangs, so the receiver must also refuse any [fencing token](../docs/glossary.md#fencing-token) lower than the highest that it has seen.
- **A step whose random numbers don't come from its key** returns another value in the second attempt, while its effect comes from the first.

## Read on

- The documentation of [Step Functions](https://docs.aws.amazon.com/step-functions/latest/dg/express-at-least-once-execution.html), [Temporal](https://docs.temporal.io/activity-definition), [Airflow](https://airflow.apache.org/docs/apache-airflow/stable/best-practices.html), and [Prefect](https://docs.prefect.io/v3/concepts/caching) on what they guarantee.
- Helland, *Life beyond Distributed Transactions*, CIDR 2007: why messages arrive at least once, and what a receiver must remember.
- Saltzer, Reed, and Clark, *End-to-End Arguments in System Design*, ACM TOCS 1984: why no layer below the receiver can do its work.
- Young, *A First Order Approximation to the Optimum Checkpoint Interval*, CACM 1974.
"""
