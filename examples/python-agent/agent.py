"""An agent of dbq in Python: it runs tasks that a TypeScript app has enqueued. Standard library only.

    DBQ_TOKEN=dbq_... python3 agent.py http://127.0.0.1:7420,http://127.0.0.1:7421

Register functions with @task. A function gets the arguments of the task, and its kwargs as keyword arguments.
SIGTERM: it claims no more, finishes what runs, and exits.
"""
import http.client
import json
import os
import signal
import sys
import threading
import time
import traceback
import urllib.parse
import uuid

functions = {}
current = threading.local()  # .cancelled: a threading.Event, set when the task was cancelled or lost


def task(function):
    functions[function.__name__] = function
    return function


@task
def word_count(text, *, words=None):
    """How often each word is in the text; of some words only, if they are named."""
    counts = {}
    for word in text.split():
        if words is None or word in words:
            counts[word] = counts.get(word, 0) + 1
    return counts


@task
def divide(a, b):
    return a / b


@task
def wait_for_cancel():
    current.cancelled.wait(60)
    raise InterruptedError("cancelled")


class Client:
    """Asks the Managers, one after the other, until one answers. Each thread has a connection of its own."""

    def __init__(self, urls, token):
        self.urls, self.token, self.at, self.local = urls, token, 0, threading.local()

    def ask(self, path, body, wait=0):
        text = json.dumps(body)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        while True:
            at = self.at
            try:
                connection = self.connection(at, wait + 10)
                connection.request("POST", path, text, headers)
                response = connection.getresponse()
                answer = json.loads(response.read())
                if response.status == 200:
                    return answer
                if response.status < 500 and response.status != 429:
                    raise SystemExit(f"{self.urls[at]} refused {path}: {response.status} {answer['error']}")
            except (OSError, http.client.HTTPException):
                pass  # the next Manager answers the same request the same
            self.local.connection = None
            self.at = (at + 1) % len(self.urls)
            time.sleep(0.2)

    def connection(self, at, timeout):
        open_one = getattr(self.local, "connection", None)
        if open_one is None or self.local.at != at:
            url = urllib.parse.urlsplit(self.urls[at])
            kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
            self.local.connection, self.local.at = kind(url.hostname, url.port, timeout=timeout), at
        return self.local.connection


class Agent:
    def __init__(self, client, concurrency=4):
        self.client, self.concurrency, self.session = client, concurrency, str(uuid.uuid4())
        self.running, self.changed, self.stopping = {}, threading.Condition(), threading.Event()

    def run(self):
        threading.Thread(target=self.beat, daemon=True).start()
        while not self.stopping.is_set():
            with self.changed:
                self.changed.wait_for(lambda: len(self.running) < self.concurrency, timeout=1)
                slots = self.concurrency - len(self.running)
            if slots == 0:
                continue
            claim = {"session": self.session, "requestId": str(uuid.uuid4()), "slots": slots, "wait": "2s"}
            for claimed in self.client.ask("/v1/claim", {**claim, "funcs": list(functions)}, 2)["tasks"]:
                key = (claimed["id"], claimed["generation"])
                with self.changed:
                    self.running[key] = threading.Event()
                threading.Thread(target=self.attempt, args=(key, claimed)).start()
        with self.changed:
            self.changed.wait_for(lambda: not self.running)

    def attempt(self, key, claimed):
        current.cancelled = self.running[key]
        try:
            result = functions[claimed["func"]](*claimed["args"], **claimed["kwargs"])
            json.dumps(result, allow_nan=False)
            outcome = {"status": "completed", "result": result}
        except Exception as error:
            stack = traceback.format_exc()
            outcome = {"status": "failed", "error": {"name": type(error).__name__, "message": str(error), "stack": stack}}
        version = {"id": key[0], "generation": key[1]}
        self.client.ask("/v1/settle", {"session": self.session, "tasks": [{**version, **outcome}]})
        with self.changed:
            del self.running[key]
            self.changed.notify_all()

    def beat(self):
        """Says once a second what runs: so the tasks stay this agent's, and it hears of cancels."""
        while True:
            time.sleep(1)
            with self.changed:
                running = dict(self.running)
            if not running:
                continue
            newest = dict(sorted(running))  # a task may have come again before the answer to its settle
            versions = [{"id": id, "generation": generation} for id, generation in newest.items()]
            answer = self.client.ask("/v1/beat", {"session": self.session, "running": versions})
            for id in {*answer["cancel"], *answer["lost"]}:
                running[(id, newest[id])].set()


if __name__ == "__main__":
    agent = Agent(Client(sys.argv[1].split(","), os.environ["DBQ_TOKEN"]))

    def stop(*_):
        agent.stopping.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    print("ready", flush=True)
    agent.run()
