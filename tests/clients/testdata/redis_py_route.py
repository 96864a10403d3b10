"""A client of redis-py: redis_py_route.py node|cluster|sentinel PASSWORD MASTER HOST:PORT...

It reads commands, one JSON list of words per line, and writes one line per command: {"reply": [...]} or {"error": "..."}.
The client is never reopened, whatever happens to the servers.
"""

import json
import logging
import sys

import redis
from redis.cluster import ClusterNode, RedisCluster
from redis.sentinel import Sentinel

MODE, PASSWORD, MASTER = sys.argv[1:4]
PATIENCE = 5
NODES = [(host, int(port)) for host, port in (address.split(":") for address in sys.argv[4:])]

logging.disable()  # without a handler redis-py logs each incident to standard error


def open_client():
    settings = {"password": PASSWORD, "socket_timeout": PATIENCE}
    if MODE == "cluster":
        nodes = [ClusterNode(host, port) for host, port in NODES]
        # With dynamic startup nodes redis-py 4.3 fails at the first node that is down.
        return RedisCluster(startup_nodes=nodes, dynamic_startup_nodes=False, **settings)
    if MODE == "sentinel":
        return Sentinel(NODES, sentinel_kwargs=settings, **settings).master_for(MASTER)
    return redis.Redis(*NODES[0], **settings)


def answer(client, command):
    try:
        return {"reply": client.execute_command(*command)}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


client = open_client()
for line in sys.stdin:
    print(json.dumps(answer(client, json.loads(line))), flush=True)
