"""Limits the users whose names are read from standard input. Needs redis-py 4 or later.

The client asks the Sentinel port of the nodes for the leader. While there is no leader, a call is repeated for up to two seconds."""

import os
import sys

from redis import BusyLoadingError, ConnectionError
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

NODES = [node.split(":") for node in os.environ.get("THROTTLED_SENTINELS", "127.0.0.1:26380").split(",")]
PASSWORD = os.environ.get("THROTTLED_PASSWORD")

sentinel = Sentinel([(host, int(port)) for host, port in NODES], password=PASSWORD,
                    sentinel_kwargs={"password": PASSWORD, "socket_timeout": 1, "retry": Retry(NoBackoff(), 0)})
client = sentinel.master_for("mymaster", retry=Retry(ExponentialBackoff(cap=0.2, base=0.02), 10),
                             retry_on_error=[BusyLoadingError, ConnectionError])

for user in map(str.strip, sys.stdin):
    # Bursts of up to 16, and 30 calls an hour.
    limited, limit, remaining, retry_after, reset_after = client.execute_command("CL.THROTTLE", f"user:{user}", 15, 30, 3600)
    print(f"refused; retry after {retry_after} s" if limited else f"admitted; {remaining} remain", flush=True)
