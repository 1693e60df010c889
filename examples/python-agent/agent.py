"""An agent of dbq in Python: it runs tasks that a TypeScript app has enqueued. Standard library only.

    DBQ_TOKEN=dbq_... python3 agent.py http://127.0.0.1:7420,unix:/run/dbq.sock

Register functions with @task(). A function gets the arguments of the task, and its kwargs as keyword arguments.
@task(limit={"concurrency": 2}, uses=["openai"]) has the limits that the options of the same names have in TypeScript.
SIGTERM: it claims no more, finishes what runs, and exits. For a Manager's own certificate: SSL_CERT_FILE=manager.crt
"""
import http.client, json, os, signal, socket, sys, threading, time, traceback, urllib.parse, uuid

session = str(uuid.uuid4())
functions, limits, sharing = {}, {}, {}  # by the function's name; the limits and shared limits as Managers read them
current = threading.local()  # .cancelled: a threading.Event, set when the task was cancelled or lost


class Throttle(Exception):
    """Throttle("30s"): no task of the function, or of the task's group, starts for so long. No retry is charged."""


def task(limit=None, uses=()):
    def register(function):
        functions[function.__name__], limits[function.__name__] = function, limit
        sharing[function.__name__] = {"uses": list(uses)}
        return function
    return register


@task()
def word_count(text, *, words=None):
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
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def connection_to(url):
    place = urllib.parse.urlsplit(url)
    kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection, "unix": UnixConnection}
    connection = kinds[place.scheme](place.hostname or "localhost", place.port, timeout=12)
    connection.path = url[len("unix:"):]
    return connection


class Client(threading.local):
    """Asks the first Manager of the list, and puts it last when it does not answer. Each thread has its own connections."""

    def __init__(self, urls, token):  # Python calls it in each thread, and passes the same list
        self.urls, self.connections = urls, {url: connection_to(url) for url in urls}
        self.headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def ask(self, path, **body):
        while True:
            url = self.urls[0]
            try:
                self.connections[url].request("POST", path, json.dumps({"session": session, **body}), self.headers)
                response = self.connections[url].getresponse()
                answer = json.loads(response.read())
                if response.status == 200:
                    return answer
                if response.status < 500 and response.status != 429:
                    print(f"{url} refused {path}: {response.status} {answer['error']}", file=sys.stderr, flush=True)
                    os._exit(1)  # in any thread, and with what runs: the Managers give that to others
            except (OSError, http.client.HTTPException):
                pass  # the next Manager answers the same request the same
            self.connections[url].close()  # the next request connects again
            if url == self.urls[0]:
                self.urls[:] = self.urls[1:] + self.urls[:1]
            time.sleep(0.2)


class Agent:
    def __init__(self, client, concurrency=4):
        self.client, self.concurrency = client, concurrency
        self.running = {}  # by id and generation: the event that the function sees as current.cancelled
        self.ended, self.stopping = threading.Condition(), threading.Event()

    def run(self):
        self.client.ask("/v1/limits", limits=limits)
        threading.Thread(target=self.beat, daemon=True).start()
        while not self.stopping.is_set():
            with self.ended:
                if not self.ended.wait_for(lambda: len(self.running) < self.concurrency, timeout=1):
                    continue
            claim = {"requestId": str(uuid.uuid4()), "funcs": list(functions), "sharing": sharing, "wait": "2s"}
            answer = self.client.ask("/v1/claim", slots=self.concurrency - len(self.running), **claim)
            for claimed in answer["tasks"]:
                key = (claimed["id"], claimed["generation"])
                self.running[key] = threading.Event()
                threading.Thread(target=self.attempt, args=(key, claimed)).start()

    def attempt(self, key, claimed):
        current.cancelled = self.running[key]
        try:
            result = functions[claimed["func"]](*claimed["args"], **claimed["kwargs"])
            json.dumps(result, allow_nan=False)
            outcome = {"status": "completed", "result": result}
        except Throttle as throttle:
            outcome = {"status": "throttled", "delay": str(throttle)}
        except Exception as error:
            said = {"name": type(error).__name__, "message": str(error), "stack": traceback.format_exc()}
            outcome = {"status": "failed", "error": said}
        self.client.ask("/v1/settle", tasks=[{"id": key[0], "generation": key[1], **outcome}])
        with self.ended:
            del self.running[key]
            self.ended.notify_all()

    def beat(self):
        while True:  # so the tasks stay this agent's, and it hears of cancels
            time.sleep(1)
            running = self.running.copy()
            newest = dict(sorted(running))  # a task may have come again before the answer to its settle
            if newest:
                answer = self.client.ask("/v1/beat", running=[{"id": id, "generation": newest[id]} for id in newest])
                for id in {*answer["cancel"], *answer["lost"]}:
                    running[(id, newest[id])].set()


def main():
    urls, token = "".join(sys.argv[1:2]).split(","), os.environ.get("DBQ_TOKEN")
    for url in urls:
        if not url.startswith(("http://", "https://", "unix:")):
            sys.exit(f"expected URLs with http:, https: or unix:, got {url!r}")
    if not token:
        sys.exit("DBQ_TOKEN is not set: dbq agent add prints a token")
    agent = Agent(Client(urls, token))
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: agent.stopping.set())
    print("ready", flush=True)
    agent.run()  # afterwards Python waits for the threads of the attempts


if __name__ == "__main__":
    main()
