"""A client of redis-py: redis_py_route.py node|cluster|sentinel PASSWORD MASTER HOST:PORT...

It reads commands, as lists of words in JSON, a line each, and answers each with a line:
{"reply": [...]} or {"error": "..."}. The client stays the same, whatever happens to the servers.
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

logging.disable()  # redis-py logs each incident, where nobody else listens to standard error


def open_client():
    settings = {"password": PASSWORD, "socket_timeout": PATIENCE}
    if MODE == "cluster":
        nodes = [ClusterNode(host, port) for host, port in NODES]
        # Among nodes that it has found by itself, redis-py 4.3 fails at the first that is dead.
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
