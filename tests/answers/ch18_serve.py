"""Right and wrong answers of chapter 18."""

import http.client
import json
import math
import os
import statistics
import sys
import time
import urllib.error
import urllib.request

import numpy as np
import pandas
import requests
from fastapi import FastAPI
from pydantic import BaseModel
from ray import cloudpickle, serve
from starlette.responses import JSONResponse

from tests.answers import accepts, rejects

RAY = {"num_cpus": 4}
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # replicas cannot import the tests


class Acting:
    """A replica as it should be, for the wrong answers to change."""

    def __init__(self, model):
        self.model = model

    async def __call__(self, request):
        return self.answer((await request.json())["obs"])

    def answer(self, obs):
        return {"action": self.model.actions([obs])[0], "version": self.model.version, "pid": os.getpid()}


def bound(replica, model, replicas, cpus):
    options = {"num_replicas": replicas, "ray_actor_options": {"num_cpus": cpus}}
    return serve.deployment(replica).options(name="Acting", **options).bind(model)


@accepts("policy_service")
def with_a_response_of_its_own(model, replicas, cpus):
    @serve.deployment(num_replicas=replicas, ray_actor_options={"num_cpus": cpus})
    class Service:
        def __init__(self, policy):
            self.policy = policy

        async def __call__(self, request):
            obs = np.array((await request.json())["obs"])
            action = int(self.policy.actions(obs[None])[0])
            return JSONResponse({"pid": os.getpid(), "version": self.policy.version, "action": action})

    return Service.bind(policy=model)


class Question(BaseModel):
    obs: list[float]


def with_fastapi(model, path):
    web = FastAPI()

    @serve.deployment(name="WithPaths")
    @serve.ingress(web)
    class Service:
        @web.post(path)
        async def act(self, question: Question):
            return {"action": model.actions([question.obs])[0], "version": model.version, "pid": os.getpid()}

    return Service


@accepts("policy_service")
def with_fastapi_below_ingress(model, replicas, cpus):
    options = {"num_replicas": replicas, "ray_actor_options": {"num_cpus": cpus}}
    return with_fastapi(model, "/").options(**options).bind()


@rejects("policy_service", says="404")
def with_fastapi_at_another_path(model, replicas, cpus):
    options = {"num_replicas": replicas, "ray_actor_options": {"num_cpus": cpus}}
    return with_fastapi(model, "/act").options(**options).bind()


@rejects("policy_service")
def forgets_to_bind(model, replicas, cpus):
    return serve.deployment(Acting).options(num_replicas=replicas, ray_actor_options={"num_cpus": cpus})


@rejects("policy_service")
def one_replica_whatever_was_asked(model, replicas, cpus):
    return bound(Acting, model, 1, cpus)


@rejects("policy_service")
def forgets_the_cpus(model, replicas, cpus):
    return serve.deployment(Acting).options(num_replicas=replicas).bind(model)


@rejects("policy_service")
def looks_into_the_address(model, replicas, cpus):
    class Looks(Acting):
        async def __call__(self, request):
            return self.answer([float(part) for part in request.query_params["obs"].split(",")])

    return bound(Looks, model, replicas, cpus)


@rejects("policy_service", says="Is an `await` missing?")
def does_not_await_the_body(model, replicas, cpus):
    class Hurries(Acting):
        async def __call__(self, request):
            return self.answer(request.json()["obs"])

    return bound(Hurries, model, replicas, cpus)


@rejects("policy_service")
def gives_the_model_no_batch(model, replicas, cpus):
    class NoBatch(Acting):
        def answer(self, obs):
            return {"action": self.model.actions(obs)[0], "version": self.model.version, "pid": os.getpid()}

    return bound(NoBatch, model, replicas, cpus)


@rejects("policy_service")
def answers_with_a_list(model, replicas, cpus):
    class Lists(Acting):
        def answer(self, obs):
            return super().answer(obs) | {"action": self.model.actions([obs])}

    return bound(Lists, model, replicas, cpus)


@rejects("policy_service")
def a_version_written_down(model, replicas, cpus):
    class One(Acting):
        def answer(self, obs):
            return super().answer(obs) | {"version": 1}

    return bound(One, model, replicas, cpus)


@rejects("policy_service")
def names_the_notebooks_process(model, replicas, cpus):
    here = os.getpid()

    class Here(Acting):
        def answer(self, obs):
            return super().answer(obs) | {"pid": here}

    return bound(Here, model, replicas, cpus)


@accepts("batched_service")
def with_more_room_and_a_list_of_dictionaries(model, size, wait, replicas):
    @serve.deployment(
        num_replicas=replicas, max_ongoing_requests=100 + size, ray_actor_options={"num_cpus": 0.2}, name="Batches"
    )
    class Service:
        @serve.batch(max_batch_size=size, batch_wait_timeout_s=wait)
        async def compute(self, requests):
            rows = [(await request.json())["obs"] for request in requests]
            facts = {"batch": len(rows), "pid": os.getpid(), "version": model.version}
            return [facts | {"action": action} for action in model.actions(rows)]

        async def __call__(self, request):
            return await self.compute(request)

    return Service.bind()


@accepts("batched_service")
def batches_with_fastapi(model, size, wait, replicas):
    web = FastAPI()

    @serve.deployment(num_replicas=replicas, max_ongoing_requests=100, ray_actor_options={"num_cpus": 0.2})
    @serve.ingress(web)
    class Service:
        @serve.batch(max_batch_size=size, batch_wait_timeout_s=wait)
        async def compute(self, rows):
            return [{"action": action, "batch": len(rows), "pid": os.getpid()} for action in model.actions(rows)]

        @web.post("/")
        async def act(self, question: Question):
            return await self.compute(question.obs)

    return Service.bind()


def batching(model, size, wait, replicas=1, compute=None, **options):
    """Return the application of a batched service; `compute(model, rows)` returns the actions."""
    options = {"num_replicas": replicas, "max_ongoing_requests": 100, "ray_actor_options": {"num_cpus": 0.2}} | options
    compute = compute or (lambda model, rows: model.actions(rows))

    @serve.deployment(**options)
    class Batching:
        @serve.batch(max_batch_size=size, batch_wait_timeout_s=wait)
        async def many(self, rows):
            return [{"action": action, "batch": len(rows), "pid": os.getpid()} for action in compute(model, rows)]

        async def __call__(self, request):
            return await self.many((await request.json())["obs"])

    return Batching.bind()


@rejects("batched_service")
def no_batches_at_all(model, size, wait, replicas):
    class Single(Acting):
        def answer(self, obs):
            return {"action": self.model.actions([obs])[0], "batch": 1, "pid": os.getpid()}

    return bound(Single, model, replicas, 0.2)


@rejects("batched_service")
def leaves_the_size_at_ten(model, size, wait, replicas):
    return batching(model, 10, 0.5, replicas)


@rejects("batched_service")
def leaves_the_waiting_time_at_its_default(model, size, wait, replicas):
    return batching(model, size, 0.01, replicas)


@rejects("batched_service", says="accepts at most")
def lets_one_batch_in(model, size, wait, replicas):
    return batching(model, size, wait, replicas, max_ongoing_requests=size)


@rejects("batched_service", says="accepts at most")
def lets_three_batches_in(model, size, wait, replicas):
    return batching(model, size, wait, replicas, max_ongoing_requests=3 * size)


@rejects("batched_service")
def one_replica_for_all(model, size, wait, replicas):
    return batching(model, size, wait)


@rejects("batched_service")
def a_whole_cpu_each(model, size, wait, replicas):
    return batching(model, size, wait, replicas, ray_actor_options={})


@rejects("batched_service", says="'batch' should be 1")
def says_the_largest_size_for_every_batch(model, size, wait, replicas):
    @serve.deployment(num_replicas=replicas, max_ongoing_requests=100, ray_actor_options={"num_cpus": 0.2})
    class Largest:
        @serve.batch(max_batch_size=size, batch_wait_timeout_s=wait)
        async def many(self, rows):
            return [{"action": action, "batch": size, "pid": os.getpid()} for action in model.actions(rows)]

        async def __call__(self, request):
            return await self.many((await request.json())["obs"])

    return Largest.bind()


@rejects("batched_service", says="for the observation in this request")
def answers_in_another_order(model, size, wait, replicas):
    return batching(model, size, wait, replicas, lambda model, rows: model.actions(rows)[::-1])


def may_pass(status):
    return status >= 500 or status in (408, 429)


@accepts("client")
def with_the_standard_library(url, obs, timeout, tries, pause):
    body, error = json.dumps({"obs": obs}).encode(), None
    for number in range(tries):
        if number:
            time.sleep(pause * 2 ** (number - 1))
        try:
            request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=timeout) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as refused:
            if not may_pass(refused.code):
                raise
            error = refused
        except (OSError, http.client.HTTPException) as failed:
            error = failed
    raise RuntimeError(f"No answer in {tries} tries") from error


@accepts("client")
def calls_itself_with_one_try_less(url, obs, timeout, tries, pause):
    try:
        reply = requests.post(url, data=json.dumps({"obs": list(obs)}), timeout=(timeout, timeout))
        if reply.ok:
            return reply.json()
        error = ValueError(f"status {reply.status_code}")
        if not may_pass(reply.status_code):
            raise error
    except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError) as failed:
        error = failed
    if tries <= 1:
        raise error
    time.sleep(pause)
    return calls_itself_with_one_try_less(url, obs, timeout, tries - 1, 2 * pause)


def tries_again(url, obs, timeout, tries, pause, again=may_pass, longer=2):
    """Return the answer as a client should, unless it is told otherwise."""
    for number in range(tries):
        last = number == tries - 1
        try:
            reply = requests.post(url, json={"obs": obs}, timeout=timeout)
            if last or not again(reply.status_code):
                reply.raise_for_status()
                return reply.json()
        except requests.HTTPError:
            raise
        except requests.RequestException:
            if last:
                raise
        time.sleep(pause * longer**number)
    return None


BEGUN = set()


@accepts("client")
def on_a_machine_that_is_busy_at_first(url, obs, timeout, tries, pause):
    busy = 1.0 * ((tries, pause) not in BEGUN)
    BEGUN.add((tries, pause))
    try:
        return tries_again(url, obs, timeout, tries, pause, again=lambda status: time.sleep(busy) or may_pass(status))
    finally:
        time.sleep(busy)


@accepts("client")
def with_a_session_that_closes_itself(url, obs, timeout, tries, pause):
    waits = [0, *(pause * 2**number for number in range(tries - 1))]
    failed = []
    with requests.Session() as session:
        for wait in waits:
            time.sleep(wait)
            try:
                reply = session.post(url, json={"obs": obs}, timeout=timeout)
            except (requests.Timeout, requests.ConnectionError, requests.exceptions.ChunkedEncodingError) as error:
                failed.append(error)
                continue
            if reply.status_code == 200:
                return reply.json()
            failed.append(requests.HTTPError(reply.status_code))
            if not may_pass(reply.status_code):
                break
    raise failed[-1]


@rejects("client", says="after 5 s")
def no_time_limit(url, obs, timeout, tries, pause):
    return tries_again(url, obs, None, tries, pause)


@rejects("client", says="plus the pause", long=True)
def a_time_limit_of_its_own(url, obs, timeout, tries, pause):
    return tries_again(url, obs, 3, tries, pause)


@rejects("client", says="each attempt may take 20 s")
def one_time_limit_for_all_tries(url, obs, timeout, tries, pause):
    return tries_again(url, obs, timeout / tries, tries, pause)


@rejects("client", says="ChunkedEncodingError")
def gives_up_when_the_answer_breaks_off(url, obs, timeout, tries, pause):
    for number in range(tries):
        last = number == tries - 1
        try:
            reply = requests.post(url, json={"obs": obs}, timeout=timeout)
            if last or not may_pass(reply.status_code):
                reply.raise_for_status()
                return reply.json()
        except (requests.Timeout, requests.ConnectionError):
            if last:
                raise
        time.sleep(pause * 2**number)
    return None


@rejects("client")
def always_pauses_as_long(url, obs, timeout, tries, pause):
    return tries_again(url, obs, timeout, tries, pause, longer=1)


@rejects("client", says="After failure 4")
def pauses_three_times_as_long(url, obs, timeout, tries, pause):
    return tries_again(url, obs, timeout, tries, pause, longer=3)


@rejects("client", says="after its last attempt")
def sleeps_after_the_last_try(url, obs, timeout, tries, pause):
    try:
        return tries_again(url, obs, timeout, tries, pause)
    except requests.RequestException:
        time.sleep(pause * 2 ** (tries - 1))
        raise


@rejects("client", says="429")
def gives_up_when_the_service_is_too_busy(url, obs, timeout, tries, pause):
    return tries_again(url, obs, timeout, tries, pause, again=lambda status: status >= 500)


@rejects("client", says="before its first attempt")
def pauses_before_the_first_try(url, obs, timeout, tries, pause):
    time.sleep(pause)
    return tries_again(url, obs, timeout, tries, pause)


@rejects("client")
def sends_a_wrong_request_again(url, obs, timeout, tries, pause):
    return tries_again(url, obs, timeout, tries, pause, again=lambda status: status >= 400)


@rejects("client")
def does_not_look_at_the_status(url, obs, timeout, tries, pause):
    return requests.post(url, json={"obs": obs}, timeout=timeout).json()


@rejects("client")
def one_try_too_many(url, obs, timeout, tries, pause):
    return tries_again(url, obs, timeout, tries + 1, pause)


@rejects("client")
def returns_nothing_after_the_last_try(url, obs, timeout, tries, pause):
    try:
        return tries_again(url, obs, timeout, tries, pause)
    except requests.RequestException:
        return None


@rejects("client")
def returns_nothing_when_the_connection_always_drops(url, obs, timeout, tries, pause):
    try:
        return tries_again(url, obs, timeout, tries, pause)
    except requests.ConnectionError:
        return None


@rejects("client")
def sends_a_form(url, obs, timeout, tries, pause):
    return requests.post(url, data={"obs": obs}, timeout=timeout).json()


@rejects("client")
def gives_up_when_the_connection_drops(url, obs, timeout, tries, pause):
    for number in range(tries):
        try:
            reply = requests.post(url, json={"obs": obs}, timeout=timeout)
            if not may_pass(reply.status_code) or number == tries - 1:
                break
        except (requests.Timeout, requests.exceptions.ChunkedEncodingError):
            pass
        time.sleep(pause * 2**number)
    reply.raise_for_status()
    return reply.json()


def summary(rows, since="due", counts=lambda row: row["status"] == 200, percentile=np.percentile):
    good = [row for row in rows if counts(row)]
    p50, p95, p99 = percentile([row["done"] - row[since] for row in good], [50, 95, 99])
    seconds = max(row["done"] for row in rows) - min(row["due"] for row in rows)
    failed = sum(row["status"] != 200 for row in rows)
    return {"failed": failed, "per_second": len(good) / seconds, "p50": p50, "p95": p95, "p99": p99}


@accepts("load_test")
def with_the_standard_library_s_quantiles(rows):
    def quantiles(values, shares):
        cuts = statistics.quantiles(values, n=100)
        return [cuts[share - 1] for share in shares]

    return summary(rows, percentile=quantiles)


@accepts("load_test")
def with_pandas(rows):
    table = pandas.DataFrame(rows)
    good = table[table.status == 200]
    waits = (good.done - good.due).quantile([0.5, 0.95, 0.99], interpolation="higher")
    return {
        "failed": (table.status != 200).sum(),
        "per_second": len(good) / (table.done.max() - table.due.min()),
        **dict(zip(("p50", "p95", "p99"), waits, strict=True)),
    }


@accepts("load_test")
def by_rank(rows):
    def nearest(values, shares):
        values = sorted(values)
        return [values[math.ceil(share / 100 * len(values)) - 1] for share in shares]

    return summary(rows, percentile=nearest)


@rejects("load_test")
def from_the_moment_of_sending(rows):
    return summary(rows, since="sent")


@rejects("load_test", says="from the first due")
def throughput_since_the_first_was_sent(rows):
    seconds = max(row["done"] for row in rows) - min(row["sent"] for row in rows)
    good = sum(row["status"] == 200 for row in rows)
    return summary(rows) | {"per_second": good / seconds}


@rejects("load_test")
def fast_failures_improve_the_latency(rows):
    return summary(rows, counts=lambda row: True) | {"per_second": summary(rows)["per_second"]}


@rejects("load_test")
def failures_count_as_answers(rows):
    right = summary(rows)
    return right | {"per_second": summary(rows, counts=lambda row: True)["per_second"]}


@rejects("load_test")
def the_slowest_for_the_99th(rows):
    return summary(rows, percentile=lambda values, shares: [*np.percentile(values, [50, 95]), max(values)])


@rejects("load_test")
def the_time_of_the_answered_ones_alone(rows):
    good = [row for row in rows if row["status"] == 200]
    seconds = max(row["done"] for row in good) - min(row["due"] for row in good)
    return summary(rows) | {"per_second": len(good) / seconds}


@rejects("load_test", says="from the first due")
def throughput_until_the_last_due_is_done(rows):
    ordered = sorted(rows, key=lambda row: row["due"])
    good = sum(row["status"] == 200 for row in rows)
    return summary(rows) | {"per_second": good / (ordered[-1]["done"] - ordered[0]["due"])}


@rejects("load_test", says="after their request was due")
def in_milliseconds(rows):
    right = summary(rows)
    return right | {name: 1000 * right[name] for name in ("p50", "p95", "p99")}


@rejects("load_test", says="requests failed")
def counts_500_but_not_0(rows):
    return summary(rows) | {"failed": sum(row["status"] >= 500 for row in rows)}
