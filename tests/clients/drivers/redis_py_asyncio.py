"""Driver of redis-py with asyncio; see README.md. The checks run in a thread, and their calls in the event loop."""

import asyncio
import importlib.metadata
import threading

import redis
import redis.asyncio
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import ConstantBackoff, NoBackoff

import checks

PATIENCE = dict(retry=Retry(ConstantBackoff(0.05), 12),
                retry_on_error=[redis.exceptions.BusyLoadingError, redis.ConnectionError])

loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()


def wait(coroutine):
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result()


class Client:
    error = (redis.RedisError, redis.exceptions.RedisClusterException)  # the latter has no base class of the library

    def __init__(self, options, password):
        settings = dict(username=options.user, password=password)
        if options.resp:
            settings["protocol"] = options.resp
        if options.tls_ca:
            settings.update(ssl=True, ssl_ca_certs=options.tls_ca)
        self.mode, self.repeated = options.mode, 0
        self.client = wait(getattr(self, "open_" + options.mode)(options.addresses, settings))

    async def open_standalone(self, addresses, settings):
        host, port = addresses[0]
        return redis.asyncio.Redis(host=host, port=port, **settings)

    async def open_cluster(self, addresses, settings):
        return RedisCluster(startup_nodes=[ClusterNode(host, port) for host, port in addresses], **settings)

    async def open_sentinel(self, addresses, settings):
        asking = dict(settings, retry=Retry(NoBackoff(), 0), socket_timeout=1)
        return Sentinel(addresses, sentinel_kwargs=asking, **settings).master_for("mymaster", **PATIENCE)

    def call(self, *args):
        return wait(self.client.execute_command(*args) if self.mode != "cluster" else self.persist(args))

    async def persist(self, args):
        """Repeats a call whose connection is refused or lost, for up to 5 s. The library does not repeat all of these calls, whatever its
        number of retries, and raises an AttributeError if another call closes the connection. A repeated call may charge twice."""
        deadline, first = loop.time() + 5, True
        while True:
            try:
                return await self.client.execute_command(*args)
            except (redis.ConnectionError, AttributeError):
                if loop.time() > deadline:
                    raise
                self.repeated += first
                first = False
                await asyncio.sleep(0.02)

    def pipeline(self, commands):
        return wait(self.send(self.client.pipeline() if self.mode == "cluster" else self.client.pipeline(transaction=False), commands))

    def transaction(self, commands):
        return wait(self.send(self.client.pipeline(transaction=True), commands))

    async def send(self, pipe, commands):
        async with pipe:
            for command in commands:
                pipe.execute_command(*command)
            return await pipe.execute()


def concurrently(callers, work):
    threads = [threading.Thread(target=work) for _ in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


checks.main(importlib.metadata.version("redis"), Client, concurrently)
