"""An agent of dbq in Python: it runs tasks that a TypeScript app has enqueued. Standard library only.

    DBQ_TOKEN=dbq_... python3 agent.py http://127.0.0.1:7420,unix:/run/dbq.sock

Register functions with @task(). A function gets the arguments of the task, and its kwargs as keyword arguments.
@task(limit={"concurrency": 2}, uses=["openai"]) has the limits that the options of the same names have in TypeScript.
SIGTERM: it claims no more, finishes what runs, and exits. For a Manager's own certificate: SSL_CERT_FILE=manager.crt
"""
import http.client, json, os, signal, socket, sys, threading, time, traceback, urllib.parse, uuid

functions = {}  # by name: the function, its limit, and the names of the limits that it shares
current = threading.local()  # .cancelled: a threading.Event, set when the task was cancelled or lost


class Throttle(Exception):
    """Throttle("30s"): no task of the function, or of the task's group, starts for so long. No retry is charged."""


def task(limit=None, uses=()):
    return lambda function: functions.update({function.__name__: (function, limit, list(uses))}) or function


@task()
def word_count(text, *, words=None):
    """How often each word is in the text; of some words only, if they are named."""
    found = [word for word in text.split() if words is None or word in words]
    return {word: found.count(word) for word in found}


@task(limit={"concurrency": 2}, uses=["arithmetic"])
def divide(a, b):
    return a / b


@task()
def wait_for_cancel():
    current.cancelled.wait(60)
    raise InterruptedError("cancelled")


class UnixConnection(http.client.HTTPConnection):
    """A connection to a Manager that listens on a unix socket, at .path."""

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


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
                    print(f"{self.urls[at]} refused {path}: {response.status} {answer['error']}", file=sys.stderr, flush=True)
                    os._exit(1)  # in any thread, and with what runs: the Managers give that to others
            except (OSError, http.client.HTTPException):
                pass  # the next Manager answers the same request the same
            self.local.connection = None
            self.at = (at + 1) % len(self.urls)
            time.sleep(0.2)

    def connection(self, at, timeout):
        open_one = getattr(self.local, "connection", None)
        if open_one is None or self.local.at != at:
            url = urllib.parse.urlsplit(self.urls[at])
            kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection, "unix": UnixConnection}
            self.local.connection = kinds[url.scheme](url.hostname or "localhost", url.port, timeout=timeout)
            self.local.connection.path, self.local.at = self.urls[at][len("unix:"):], at
        return self.local.connection


class Agent:
    def __init__(self, client, concurrency=4):
        self.client, self.concurrency, self.session = client, concurrency, str(uuid.uuid4())
        self.running, self.changed, self.stopping = {}, threading.Condition(), threading.Event()

    def run(self):
        sharing = {name: {"uses": uses} for name, (_, _, uses) in functions.items() if uses}
        limits = {name: limit for name, (_, limit, _) in functions.items()}  # None: the code has none
        self.client.ask("/v1/limits", {"session": self.session, "limits": limits})
        threading.Thread(target=self.beat, daemon=True).start()
        while not self.stopping.is_set():
            with self.changed:
                self.changed.wait_for(lambda: len(self.running) < self.concurrency, timeout=1)
                slots = self.concurrency - len(self.running)
            if slots == 0: continue
            claim = {"session": self.session, "requestId": str(uuid.uuid4()), "slots": slots, "wait": "2s"}
            for claimed in self.client.ask("/v1/claim", {**claim, "funcs": list(functions), "sharing": sharing}, 2)["tasks"]:
                key = (claimed["id"], claimed["generation"])
                with self.changed: self.running[key] = threading.Event()
                threading.Thread(target=self.attempt, args=(key, claimed)).start()
        with self.changed: self.changed.wait_for(lambda: not self.running)

    def attempt(self, key, claimed):
        current.cancelled = self.running[key]
        try:
            result = functions[claimed["func"]][0](*claimed["args"], **claimed["kwargs"])
            json.dumps(result, allow_nan=False)
            outcome = {"status": "completed", "result": result}
        except Throttle as throttle:
            outcome = {"status": "throttled", "delay": str(throttle)}
        except Exception as error:
            described = {"name": type(error).__name__, "message": str(error), "stack": traceback.format_exc()}
            outcome = {"status": "failed", "error": described}
        self.client.ask("/v1/settle", {"session": self.session, "tasks": [{"id": key[0], "generation": key[1], **outcome}]})
        with self.changed:
            del self.running[key]
            self.changed.notify_all()

    def beat(self):
        """Says once a second what runs: so the tasks stay this agent's, and it hears of cancels."""
        while True:
            time.sleep(1)
            with self.changed: running = dict(self.running)
            if not running: continue
            newest = dict(sorted(running))  # a task may have come again before the answer to its settle
            versions = [{"id": id, "generation": generation} for id, generation in newest.items()]
            answer = self.client.ask("/v1/beat", {"session": self.session, "running": versions})
            for id in {*answer["cancel"], *answer["lost"]}:
                running[(id, newest[id])].set()


def main():
    urls, token = "".join(sys.argv[1:2]).split(","), os.environ.get("DBQ_TOKEN")
    wrong = [url for url in urls if not url.startswith(("http://", "https://", "unix:"))]
    if wrong or not token:
        sys.exit(f"expected URLs with http:, https: or unix:, got {wrong[0]!r}" if wrong else "DBQ_TOKEN is not set: dbq agent add prints a token")
    agent = Agent(Client(urls, token))
    for each in (signal.SIGTERM, signal.SIGINT): signal.signal(each, lambda *_: agent.stopping.set())
    print("ready", flush=True)
    agent.run()


if __name__ == "__main__":
    main()
