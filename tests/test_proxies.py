"""What runs on this machine is reached directly, whatever proxy the environment names."""

import os
import subprocess
import sys

import pytest

from coursekit.basics.proxies import NAMES, reach_own_addresses_directly

NOBODY_LISTENS = "http://127.0.0.1:9"
ASK = """
import http.server, socket, threading, urllib.request
import psutil, requests
import coursekit

server = http.server.HTTPServer(("", 0), http.server.SimpleHTTPRequestHandler)
server.RequestHandlerClass.log_message = lambda *_: None
threading.Thread(target=server.serve_forever, daemon=True).start()
found = [each.address for of in psutil.net_if_addrs().values() for each in of if each.family == socket.AF_INET]
for host in ["localhost", "127.0.0.1", *found]:
    url = f"http://{host}:{server.server_port}/"
    print(host, requests.get(url).status_code, urllib.request.urlopen(url).status)
"""


@pytest.fixture
def put(monkeypatch):
    """Return a function that sets variables; no other concerns a proxy."""
    for name in [*NAMES, "no_proxy"]:
        for each in (name, name.upper()):
            monkeypatch.setenv(each, "")  # so that the end restores what the test sets
            monkeypatch.delenv(each)
    return lambda **variables: [monkeypatch.setenv(name, value) for name, value in variables.items()]


def test_this_machine_is_asked_directly_by_each_of_its_addresses(put, tmp_path):
    put(http_proxy=NOBODY_LISTENS, all_proxy=NOBODY_LISTENS, NO_PROXY="example.org")
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, cwd=tmp_path)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert len(lines) > 2
    assert [line for line in lines if not line.endswith(" 200 200")] == []


@pytest.mark.parametrize("name", [each for name in NAMES for each in (name, name.upper())])
def test_each_variable_that_names_a_proxy_counts(put, name):
    put(**{name: NOBODY_LISTENS})
    reach_own_addresses_directly()
    assert "127.0.0.1" in os.environ["NO_PROXY"].split(",")


def test_what_went_past_the_proxy_before_still_does(put):
    put(http_proxy=NOBODY_LISTENS, no_proxy=".example.org, 10.0.0.0/8", NO_PROXY="wiki")
    reach_own_addresses_directly()
    assert os.environ["no_proxy"] == os.environ["NO_PROXY"]
    assert os.environ["no_proxy"].startswith(".example.org,10.0.0.0/8,wiki,localhost,127.0.0.1,")


def test_twice_changes_nothing_more(put):
    put(https_proxy=NOBODY_LISTENS)
    reach_own_addresses_directly()
    once = os.environ["no_proxy"]
    reach_own_addresses_directly()
    assert os.environ["no_proxy"] == once


def test_a_star_stays_alone(put):
    put(http_proxy=NOBODY_LISTENS, NO_PROXY="*")
    reach_own_addresses_directly()
    assert (os.environ["no_proxy"], os.environ["NO_PROXY"]) == ("*", "*")


def test_without_a_proxy_nothing_is_set(put):
    put()
    reach_own_addresses_directly()
    assert "no_proxy" not in os.environ
