"""Limits the users whose names are read from standard input. Needs redis-py 8.

The client gets the leader from the cluster port of the nodes. With asyncio, its retries do not cover an election, so the program repeats
calls whose connection is refused or lost. A repeated call may charge twice."""

import asyncio
import os
import sys

from redis import ConnectionError
from redis.asyncio.cluster import ClusterNode, RedisCluster

NODES = [node.split(":") for node in os.environ.get("THROTTLED_NODES", "127.0.0.1:6384").split(",")]


async def repeat(call):
    """Makes a call, and repeats it for up to 5 s while its connection fails."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + 5
    while True:
        try:
            return await call()
        except (ConnectionError, AttributeError):  # the latter if a concurrent call has closed the connection
            if clock() > deadline:
                raise  # the program chooses whether the request is admitted
            await asyncio.sleep(0.02)


async def main():
    client = RedisCluster(startup_nodes=[ClusterNode(host, int(port)) for host, port in NODES], password=os.environ.get("THROTTLED_PASSWORD"))
    while user := (await asyncio.to_thread(sys.stdin.readline)).strip():
        # Bursts of up to 16, and 30 calls an hour.
        limited, limit, remaining, retry_after, reset_after = await repeat(
            lambda: client.execute_command("CL.THROTTLE", f"user:{user}", 15, 30, 3600))
        print(f"refused; retry after {retry_after} s" if limited else f"admitted; {remaining} remain", flush=True)
    await client.aclose()


asyncio.run(main())
