# %% [markdown] you_learn_to="build pipelines that may be killed anywhere, and publish once"
r"""
# Chapter 25 · Durable pipelines

A pipeline may be killed at any step, and it still publishes exactly once.

*About 95 minutes · builds on [Chapter 5](ch05_faults.ipynb) and [Chapter 19](ch19_operate.ipynb)*

**What you will be able to do**

- tell at most once, at least once and exactly once apart, by what happened and not by what was promised;
- write a receiver that recognises a repeat, even when its own process dies;
- build a pipeline of many steps that may be killed at any moment and still has each effect once;
- kill a driver at every step, and measure what a death costs with and without checkpoints;
- read what Step Functions, Airflow, Temporal and Prefect promise, and say what they leave to you.
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

from coursekit import begin, budget, check, hint, passed, progress, quiz, solution, warm_up
from coursekit.given import ch25_pipelines as given
from coursekit.given.deaths import keep_news_of_deaths
from coursekit.given.folders import new_folder

begin("ch25_pipelines")

# %% tags=["demo"]
ray.shutdown()  # ends a Ray that already runs here: its references and actors are gone
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
warm_up(2)
news = keep_news_of_deaths()  # you are about to kill processes; Ray's reports go into this list

# %% [markdown] tags=["notes"]
r"""
Ninety-five minutes with all three exercises.
Begin with a question: who has sent a mail twice, or charged a customer twice?
Somebody always has, and the story always has a retry in it.
"""

# %% [markdown]
r"""
## A night has four steps, and may die in any of them

Every night a program improves a policy: it **collects** experience, **trains**, **evaluates**, and **publishes** the policy under a new version; in the morning a service loads that version, as in chapter 18.

The game is CartPole, and a policy is four numbers: it pushes the cart to the right when their product with the observation is positive.
Learning is one round of the *cross-entropy method*: play with many random policies, keep the best eighth, and take their mean.
A step is a plain function of two things: the value that the previous step returned, and a **key**, a text that names this step of this night.
A step may use as much of Ray as it likes.

**Predict:** which of the four steps may run twice without harm?
"""


# %%
@ray.remote
def play(weights, seeds):
    """Return the mean return of a policy over these episodes."""
    return given.play_cartpole(weights, seeds)


def collect(value, key):
    """Return [weights, mean return] of random policies, which are the same whenever the key is."""
    rng = np.random.default_rng(list(key.encode()))
    policies = rng.normal(size=(budget(64, 32), 4)).tolist()
    returns = ray.get([play.remote(weights, [0, 1]) for weights in policies])
    return [[weights, reached] for weights, reached in zip(policies, returns, strict=True)]


# %%
def train(played, key):
    """Return the mean weights of the best eighth."""
    best = sorted(played, key=lambda pair: pair[1])[-len(played) // 8 :]
    return np.mean([weights for weights, _ in best], axis=0).tolist()


def evaluate(weights, key):
    """Return the policy with its mean return over ten episodes that it has not seen."""
    returns = ray.get([play.remote(weights, [seed]) for seed in range(100, 110)])
    return {"weights": weights, "return": float(np.mean(returns))}


# %% tags=["demo"]
value, seconds = None, {}
for step in (collect, train, evaluate):
    start = time.perf_counter()
    value = step(value, f"night0-{step.__name__}")
    seconds[step.__name__] = time.perf_counter() - start
print({name: f"{each:.2f} s" for name, each in seconds.items()}, f"mean return {value['return']:.0f}")

# %% [markdown]
r"""
This night takes seconds; a real one takes hours, on machines that the cloud may take back at any moment.
If it dies during the evaluation, you do not want to collect again, and you never want to publish the same policy twice.
This chapter is about the driver's death, which takes all of its tasks and objects along ([chapter 5](ch05_faults.ipynb)).
No `max_retries` helps, because the process that asked for the retries is gone.

The random numbers in `collect` come from the key, so a second attempt gets the same experience and changes nothing.
Such a step is **idempotent**: running it twice has the effect of running it once.
The first three steps are: repeating them costs time and no more.
Publishing is not, because it adds something to the world.
"""

# %% [markdown]
r"""
## A lost effect and a doubled one cancel out in every total

A program ordered four mails, and four were sent.
That proves nothing: one order may have sent two, and another none.
Count for each order by itself, and four cases remain:

| each order had its effect | you call it |
|---|---|
| once | `"exactly once"` |
| never more than once, but some had none | `"at most once"` |
| at least once, but some had more | `"at least once"` |
| neither: some had none, and others had more than one | `"none"` |

These are words for *promises*, and a single quiet day proves none of them.
Your function names the strongest one that still fits what happened.
"""


# %%
def delivery_guarantee(orders, effects):
    """Return "exactly once", "at most once", "at least once" or "none".

    `orders` are the keys that were ordered, each of them once; `effects` has a key for each effect, in the order of time.
    """
    ### BEGIN SOLUTION
    counts = [effects.count(order) for order in orders]
    lost, doubled = min(counts) == 0, max(counts) > 1
    if lost:
        return "none" if doubled else "at most once"
    return "at least once" if doubled else "exactly once"
    ### END SOLUTION


# %%
check("delivery_guarantee", delivery_guarantee)

# %% [markdown] tags=["solution"]
r"""
In totals, one order lost and one doubled look like exactly once.
An audit that compares sums finds neither the customer who paid twice nor the one who never paid.
"""

# %% [markdown]
r"""
Here are three ways to do a step that sends a mail and has a checkpoint, "this is done".
The program runs, is killed at one of its moments, and starts again; each moment gets an order of its own.
The receiver throws away a mail whose key it knows, and notes the order of every other.

**Predict** the word for each of the three.
"""


# %%
def checkpoint_first(step):
    """Say that it is done, then do it."""
    if not step.is_done():
        step.save()
        step.send(key=uuid4().hex)


def effect_first(step):
    """Do it, then say so."""
    if not step.is_done():
        step.send(key=uuid4().hex)
        step.save()


def effect_first_with_a_key(step):
    """Do it under a key that every attempt knows, then say so."""
    if not step.is_done():
        step.send(key=step.order)
        step.save()


# %% tags=["demo"]
if passed("delivery_guarantee"):
    for way in (checkpoint_first, effect_first, effect_first_with_a_key):
        orders, mails = given.mails_at_every_death(way)
        print(f"{way.__name__:24} {len(orders)} orders, {len(mails)} mails: {delivery_guarantee(orders, mails)}")

# %% [markdown]
r"""
![A death between effect and checkpoint: with the checkpoint first the effect is lost, with the effect first it is doubled, and with a key the receiver recognises the second one](../img/ch25_promises.svg)

No order of effect and checkpoint closes the gap between them.
With the checkpoint first, a death in the gap loses the mail.
With the mail first, the death repeats it.
Only the third way delivers each mail once, and it does not *send* once: it sends again, and the receiver recognises the repeat.

So whenever you read "exactly once", take it apart.
If steps run **at least once**, and a receiver counts each key **once**, each effect happens exactly once.
One half belongs to the pipeline and the other to the receiver, and you are about to write both.
"""

# %%
### BEGIN SOLUTION
between_effect_and_checkpoint = "b"
### END SOLUTION

# %%
quiz("between_effect_and_checkpoint", between_effect_and_checkpoint)

# %% [markdown]
r"""
## Only the receiver can recognise a repeat

Our night's receiver is the **registry**, which gives each policy a version: 1, 2, 3 and so on.
A service loads the newest, and if you find a fault next month, you go back to the one before.

In chapter 5 the ledger kept its keys in memory, and the counter a number in a file.
A receiver that outlives its process needs keys *and* effects on disk, and a death between the two would be fatal: a key without its policy is a policy lost, and a policy without its key will come again.
So both go into one file, with one rename.

The file is a list in JSON, `[{"key": "night1-publish", "version": 1, "policy": [0.2, ...]}, ...]`; at first there is none.
The check kills the process after everything it does to a file, then sends the same order again.
"""


# %%
def publish_once(path, key, policy):
    """Return the version of a policy in the registry, the file `path`, after it was added there as the newest.

    A key that came before adds nothing, and gets the version that it got then.
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
A database does the same with a unique key and a transaction, and also lets two senders in at once, which our file does not.
Payment services take such a key with the order and forget it after some time, often a day; a later repeat counts again.
"""

# %%
### BEGIN SOLUTION
what_a_key_is_made_of = "c"
### END SOLUTION

# %%
quiz("what_a_key_is_made_of", what_a_key_is_made_of)

# %% [markdown]
r"""
## A step whose result is saved is never called again

The other half is the pipeline.
Ray once had a library for this, `ray.workflow`; it is gone ([Old names](../docs/old_names.md)).
You can build what it did in a dozen lines, from three things you know:

- a **checkpoint** for each step: its result in a file, written under another name and renamed, so a file with the right name is always whole;
- a **key** for each step of each run, the same at every attempt, which goes along with the effect;
- a **retry**: a run that died starts again from the top, and skips the steps that have a checkpoint.

![A step has its effect, writes its result under another name and renames it; a death before the rename runs the step again, and the key makes the repeat harmless](../img/ch25_durable.svg)

The steps are plain functions, called as `function(value, key)`.
`value` is what the previous step returned, None for the first; `key` is a string that you make: the same at every call of this step of this run, different for every other step or run.
Results are plain JSON values: lists, dicts, strings, numbers, None.
Names of steps and runs are letters and digits.
Several runs may share the folder.

The check runs your pipeline in processes of its own, so call the functions directly, without Ray.
It kills the process at every moment in turn: when a step has begun, when its effect has happened, and after everything you do to a file in the folder.
"""


# %%
def durable_pipeline(steps, run, folder):
    """Return the result of the last step; `steps` is a list of (name, function), `run` a name, `folder` a path.

    The folder exists. After a death, the same call finishes the run: a step whose result was saved is not
    called again. A step that raises ends the call with its error, and the next call repeats that step.
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
For a power cut, which takes the operating system along, the file also needs `os.fsync` before the rename; on a cluster, the folder must be on storage that all nodes see.
A large result goes into a file of its own, and the checkpoint holds its name.
And never let two processes work on the same run at the same time: a checkpoint protects against deaths, not twins.
"""

# %%
### BEGIN SOLUTION
two_drivers = "b"
### END SOLUTION

# %%
quiz("two_drivers", two_drivers)

# %% [markdown]
r"""
## The driver dies at every step, and the registry has one version

Now the night runs in drivers of its own.
`given.drive` starts a new Python, which joins your Ray and runs the pipeline.
Each step below kills the driver once, with `SIGKILL`, right between its effect and its checkpoint: the worst moment.
`World` is a journal that survives every death.
"""


# %%
def mortal(work, world):
    """Return a step that notes its call, does its work, and kills its driver the first time, before the result is saved."""
    name = work.__name__

    def call(value, key):
        world.note(called=name)
        result = work(value, key)
        world.dies_once(name)
        return result

    return name, call


# %%
REGISTRY = os.path.join(new_folder(), "registry.json")


def publish(policy, key):
    """Return the version under which the registry has this policy."""
    return publish_once(REGISTRY, key, policy)


# %% [markdown]
r"""
**Predict:** how many drivers does the night take, how many times is each step called, and how many versions are in the registry in the morning?
"""

# %% tags=["demo"]
if passed("durable_pipeline") and passed("publish_once"):
    world, folder, drivers = given.World(), new_folder(), 1
    deadly = budget([collect, train, evaluate, publish], [collect, publish])  # these kill their driver
    steps = [mortal(work, world) if work in deadly else (work.__name__, work) for work in (collect, train, evaluate, publish)]
    while given.drive(durable_pipeline, steps, "night1", folder) == "killed":
        drivers += 1
    print(f"{drivers} drivers; on disk: {sorted(os.listdir(folder))}")
    journal = pandas.DataFrame(world.journal())
    display(journal[["called", "died"]].apply(lambda column: column.value_counts()).fillna(0).astype(int))
    for entry in json.loads(Path(REGISTRY).read_text()):
        print(f"version {entry['version']}: {entry['key']}, mean return {entry['policy']['return']:.0f}")

# %% [markdown]
r"""
It takes one more driver than there were deaths.
A step that killed its driver was called twice; a step whose result was on disk was never called again.
`publish` reached the registry twice as well, and the registry has one version.

The `while` loop is the *retry*, and something outside has to run it.
On a cluster, submit the driver as a job (chapter 6) and let cron, Kubernetes or a workflow system start it again.
If only a worker's death worries you, Ray can do it: make the whole pipeline *one task*, which reserves no CPU itself, and let Ray repeat it.
"""

# %% tags=["demo"]
if passed("durable_pipeline") and passed("publish_once"):
    world = given.World()
    steps = [("collect", collect), mortal(train, world), ("evaluate", evaluate), ("publish", publish)]
    task = ray.remote(durable_pipeline).options(max_retries=-1, num_cpus=0)
    version = ray.get(task.remote(steps, "night2", folder))
    print(f"version {version}; called and died: {[(row.get('called'), row.get('died')) for row in world.journal()]}")
    print(news.wait().partition(".")[0])

# %% [markdown]
r"""
Ray repeats the task when its worker dies, on another node if need be, and the checkpoints do the rest.
An *exception* ends it, as chapter 5 says: fix the cause, and call it again with the same run.
The task also ends with the program that launched it, so this protects the pipeline, not the driver.
"""

# %% [markdown]
r"""
## A checkpoint limits the loss to one step

What does a death cost?
The next cell scales a night down to about a second: half of it collecting, then training, evaluation and publishing, each a nap.
The operating system kills it at many moments, wherever it is, and it starts again.

**Predict** the two curves: the length of the night against the moment of death, from the top and with checkpoints.
"""


# %%
def from_the_top(steps, run, folder):
    """Return the result of the last step; every attempt does all of them."""
    value = None
    for name, function in steps:
        value = function(value, f"{run}-{name}")
    return value


# %% tags=["demo"]
if passed("durable_pipeline"):
    whole, moments = budget(1.0, 0.5), budget(14, 4)
    hours = {"collect": whole / 2, "train": whole / 4, "evaluate": whole / 6, "publish": whole / 12}
    figure, axes = plt.subplots(figsize=(7.5, 3.4), constrained_layout=True)
    for pipeline, colour in ((from_the_top, "#db2777"), (durable_pipeline, "#2563eb")):
        died, took = np.transpose(given.nights(pipeline, hours, moments)) / whole
        axes.plot(died, took, "o-", color=colour, label=pipeline.__name__)
    for end in np.cumsum(list(hours.values()))[:-1] / whole:
        axes.axvline(end, color="#94a3b8", linestyle="--")  # a step ends, and the next begins
    axes.set(xlabel="the night dies here (1: its end)", ylabel="nights of work", title="With checkpoints, a death costs one step at most")
    axes.legend(frameon=False)

# %% [markdown]
r"""
Without checkpoints, a death costs all the work so far, up to a second night.
With them it costs the work of the step under way, and the curve falls back at every dashed line.
The sawtooth shows what to do next: the longest step has the highest tooth, so cut *that* one into smaller steps, or let it keep checkpoints of its own, as training does.
Cut too small, and the files cost more than they save.
"""

# %% [markdown]
r"""
## A promise ends where the system ends

Once you have many pipelines, with schedules, people and approvals, use a workflow system, and let its steps submit Ray jobs.
Its documentation says what it promises.

**Predict**, before you read the table: which of Step Functions, Airflow, Temporal and Prefect repeat a failed step unless you ask them not to?

The documentation said this when this chapter was written:

| system | how often a step runs | unless you ask otherwise | left to you |
|---|---|---|---|
| AWS Step Functions, Standard | *exactly once*: a state does not run again unless its definition has a `Retry` | no retries | what had happened when a step failed |
| AWS Step Functions, Express | *at least once* if started asynchronously, *at most once* if synchronously | | idempotent steps |
| Apache Airflow | until it succeeds, as often as its `retries` allow | `default_task_retries` is 0 | the same outcome at every run: treat a task like a transaction |
| Temporal | an activity may run more than once, and is *observed as completed* exactly once | activities are retried without limit | idempotent activities; the run's id and the activity's id make a key |
| Prefect | until it succeeds, as often as its `retries` allow; a saved result replaces a call with the same cache key | `retries` is 0, and results are not saved | switching both on |
| Ray, a task | again when its worker dies | `max_retries` is 3 | keys |
| Ray, a call of an actor | not again | `max_task_retries` is 0 | calls that failed half-way |

Of the four, only Temporal repeats a failed step without being asked.
Systems that repeat steps run them *at least once*, as your pipeline does.
Those that never repeat a step give an outside effect *at most once*.
When the machine dies in the middle of a step, the step counts as failed, and only the outbox knows whether its mail went out.
What such a system counts exactly once is its own bookkeeping, which it can write in one transaction.
It cannot do that with a mail server, and neither can you.

That is why the key is worth its line in each of them.
"""

# %%
### BEGIN SOLUTION
what_exactly_once_means = "b"
### END SOLUTION

# %%
quiz("what_exactly_once_means", what_exactly_once_means)

# %% [markdown] tags=["notes"]
r"""
AWS says "exactly once" of a Standard workflow, and our quiz says "at most once" of the mail in it.
Both are right, about different things: the execution is recorded exactly once, and an outside effect happens at most once.
Ask which system people use at work, and look up its default number of retries together.
"""

# %% tags=["demo"]
ray.shutdown()

# %% tags=["demo"]
progress()

# %% [markdown]
r"""
## What you can do now

- You can tell which promise a list of orders and effects still fits, order by order.
- You close the gap between effect and checkpoint with a key.
- You write a receiver that keeps keys and effects in one file and survives its own death.
- You build pipelines that may be killed anywhere, and have killed their drivers to see it.
- You know what a death costs, and which step to cut into smaller ones.
- You read a system's promise to the point where it ends.

## Traps

- **A checkpoint before the effect** loses effects.
- **A key made at each attempt** repeats them, and so does one made with `hash`: every new Python gives a text another number.
- **A key without its run** publishes one night and drops all the others.
- **Keys in one file and effects in another**: a death in between makes them disagree.
- **A result of None, 0 or `[]`** is a result: ask whether the file is there.
- **Two drivers of one run**: nothing here keeps them apart.
  Give the run a lock, or a lease that expires.
- **A step with random numbers** of its own returns something else the second time, though its effect came from the first.

## Read on

- AWS, [execution guarantees of Step Functions](https://docs.aws.amazon.com/step-functions/latest/dg/express-at-least-once-execution.html); Temporal, [activities and idempotency](https://docs.temporal.io/activity-definition); Airflow, [best practices](https://airflow.apache.org/docs/apache-airflow/stable/best-practices.html); Prefect, [caching](https://docs.prefect.io/v3/concepts/caching).
- Helland, *Life beyond Distributed Transactions*, CIDR 2007: why messages come at least once, and what the receiver must remember.
- Saltzer, Reed and Clark, *End-to-End Arguments in System Design*, ACM TOCS 1984: why no layer below the receiver can do its work.
- [Chapter 17](ch17_data_train.ipynb): training that resumes from its own checkpoints.
"""
