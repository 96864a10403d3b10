"""Clients of redis-py under load: redis_py_load.py default|none PASSWORD THREADS PAUSE HOST:PORT...

THREADS threads per node charge 1 to a key every PAUSE seconds until standard input is closed. The program prints a line
when all threads have made their first call, and a line of JSON at the end:
{"calls": n, "failed": [{"node": ..., "error": ..., "seconds": ...}]}. The first argument selects the retries of calls: the
default of the library, or none.
"""

import json
import logging
import sys
import threading
import time

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

RETRIES, PASSWORD = sys.argv[1:3]
THREADS, PAUSE = int(sys.argv[3]), float(sys.argv[4])

logging.disable()  # errors are counted

ended = threading.Event()
begun = threading.Barrier(THREADS * len(sys.argv[5:]) + 1)
lock = threading.Lock()
calls = 0
failed = []


def take(client, node):
    global calls
    done = 0
    while True:
        start = time.monotonic()
        try:
            client.execute_command("CL.THROTTLE", "shared", "1000000", "1000000", "3600", "1")
        except Exception as error:
            seconds = time.monotonic() - start
            with lock:
                failed.append({"node": node, "error": f"{type(error).__name__}: {error}", "seconds": seconds})
        done += 1
        if done == 1:
            begun.wait()
        if ended.wait(max(0.0, start + PAUSE - time.monotonic())):
            break
    with lock:
        calls += done


threads, clients = [], []
for node in sys.argv[5:]:
    host, port = node.split(":")
    settings = {} if RETRIES == "default" else {"retry": Retry(NoBackoff(), 0), "retry_on_timeout": False}
    clients.append(redis.Redis(host, int(port), password=PASSWORD, **settings))
    threads += [threading.Thread(target=take, args=(clients[-1], node)) for _ in range(THREADS)]
for thread in threads:
    thread.start()
begun.wait()
print("begun", flush=True)
sys.stdin.read()
ended.set()
for thread in threads:
    thread.join()
for client in clients:
    client.close()
    client.connection_pool.disconnect()
print(json.dumps({"calls": calls, "failed": failed}))
