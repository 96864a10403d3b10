"""Driver of redis-py with its blocking API; see README.md."""

import importlib.metadata
import threading

import redis
from redis.backoff import ConstantBackoff, NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.retry import Retry
from redis.sentinel import Sentinel

import checks

# The library nests the retries of a call, of a connection and of the question for the leader: together they take seconds.
PATIENCE = dict(retry=Retry(ConstantBackoff(0.05), 12),
                retry_on_error=[redis.exceptions.BusyLoadingError, redis.ConnectionError])


class Client:
    error = (redis.RedisError, redis.exceptions.RedisClusterException)  # the latter has no base class of the library

    def __init__(self, options, password):
        settings = dict(username=options.user, password=password)
        if options.resp:
            settings["protocol"] = options.resp
        if options.tls_ca:
            settings.update(ssl=True, ssl_ca_certs=options.tls_ca)
        self.mode = options.mode
        self.client = getattr(self, "open_" + options.mode)(options.addresses, settings)

    def open_standalone(self, addresses, settings):
        host, port = addresses[0]
        return redis.Redis(host=host, port=port, **settings)

    def open_cluster(self, addresses, settings):
        # The library does not pause before these retries: ten, the default, take less time than an election.
        return RedisCluster(startup_nodes=[ClusterNode(host, port) for host, port in addresses], retry=Retry(NoBackoff(), 100), **settings)

    def open_sentinel(self, addresses, settings):
        asking = dict(settings, retry=Retry(NoBackoff(), 0), socket_timeout=1)
        return Sentinel(addresses, sentinel_kwargs=asking, **settings).master_for("mymaster", **PATIENCE)

    def call(self, *args):
        return self.client.execute_command(*args)

    def pipeline(self, commands):
        return self.send(self.client.pipeline() if self.mode == "cluster" else self.client.pipeline(transaction=False), commands)

    def transaction(self, commands):
        return self.send(self.client.pipeline(transaction=True), commands)

    def send(self, pipe, commands):
        with pipe:
            for command in commands:
                pipe.execute_command(*command)
            return pipe.execute()

    def close(self):
        self.client.close()


def concurrently(callers, work):
    threads = [threading.Thread(target=work) for _ in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


checks.main(importlib.metadata.version("redis"), Client, concurrently)
