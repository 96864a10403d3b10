"""Tests of redis-py with a server: redis_py.py HOST PORT PORT_WITH_PASSWORD PASSWORD."""

import sys
import threading
import unittest

import redis

HOST, PORT, SECURED_PORT, PASSWORD = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
HOUR = 3600


class ServerCase(unittest.TestCase):
    """Gives each test a client in its default configuration, and an empty server."""

    def setUp(self):
        self.client = self.open(host=HOST, port=PORT)
        self.client.flushall()

    def open(self, **settings):
        client = redis.Redis(**settings)
        self.addCleanup(client.connection_pool.disconnect)
        self.addCleanup(client.close)
        return client

    def throttle(self, key, max_burst, *quantity):
        return self.client.execute_command("CL.THROTTLE", key, max_burst, 1, HOUR, *quantity)


class Commands(ServerCase):
    def test_ping(self):
        self.assertIs(self.client.ping(), True)
        self.assertEqual(self.client.echo(b"\x00\r\n\xff"), b"\x00\r\n\xff")

    def test_throttle(self):
        self.assertEqual(self.throttle("key", 1), [0, 2, 1, -1, HOUR])
        self.assertEqual(self.throttle("key", 1)[:3], [0, 2, 0])
        self.assertEqual(self.throttle("key", 1)[:3], [1, 2, 0])
        self.assertEqual(self.throttle("key", 1, -2)[:3], [0, 2, 2])

    def test_errors(self):
        for args, text in (
            (("CL.THROTTLE", "key", 1), "wrong number of arguments for 'cl.throttle' command"),
            (("CL.THROTTLE", "key", 1, 1.5, 60), "invalid count '1.5': must be a 64-bit integer of at least 1"),
            (("CL.NONSENSE", "key"), "unknown command 'CL.NONSENSE', with args beginning with: 'key'"),
        ):
            with self.assertRaises(redis.ResponseError) as caught:
                self.client.execute_command(*args)
            self.assertEqual(str(caught.exception).strip(), text)
        self.assertIs(self.client.ping(), True)

    def test_keys(self):
        for i in range(300):
            self.throttle(f"user:{i}", 0)
        self.assertEqual(len(set(self.client.scan_iter("user:*", count=50))), 300)
        self.assertEqual(self.client.dbsize(), 300)
        self.assertEqual(self.client.exists("user:1", "user:2", "user:x"), 2)
        self.assertTrue(HOUR - 60 < self.client.ttl("user:1") <= HOUR)
        self.assertEqual(self.client.delete("user:1", "user:x"), 1)
        self.assertEqual(self.client.ttl("user:1"), -2)

    def test_lifetimes(self):
        self.throttle("key", 0)
        self.assertEqual(self.client.touch("key", "other"), 1)
        self.assertEqual(self.client.randomkey(), b"key")
        for call in (lambda: self.client.expire("key", 10), lambda: self.client.persist("key")):
            with self.assertRaisesRegex(redis.ResponseError, "^the expiry of a limiter key cannot be changed"):
                call()

    def test_scripts(self):
        script = self.client.register_script("return redis.call('cl.throttle', KEYS[1], 15, 30, 60)")
        with self.assertRaisesRegex(redis.ResponseError, "^scripts are not supported: use CL.THROTTLE"):
            script(keys=["key"])

    def test_modules(self):
        self.assertEqual([m[b"name"] for m in self.client.module_list()], [b"redis-cell"])

    def test_server(self):
        info = self.client.info()
        self.assertEqual((info["redis_mode"], info["loading"], info["role"]), ("standalone", 0, "master"))
        self.assertEqual(self.client.info("everything")["cluster_enabled"], 0)
        self.assertEqual(self.client.config_get("save"), {"save": ""})
        self.assertIn("cl.throttle", self.client.command())
        self.assertIn("addr", self.client.client_list()[0])
        self.assertEqual(self.client.client_info()["db"], 0)
        self.assertEqual(self.client.slowlog_reset(), True)
        self.assertEqual(self.client.slowlog_get(), [])
        self.assertEqual(len(self.client.time()), 2)

    def test_unicode(self):
        client = self.open(host=HOST, port=PORT, decode_responses=True)
        client.execute_command("CL.THROTTLE", "schlüssel", 1, 1, HOUR)
        self.assertEqual(client.keys(), ["schlüssel"])


class Pipelines(ServerCase):
    def fill(self, pipe, calls):
        for _ in range(calls):
            pipe.execute_command("CL.THROTTLE", "key", 99, 1, HOUR)

    def test_default_is_a_transaction(self):
        with self.client.pipeline() as pipe:
            self.fill(pipe, 100)
            replies = pipe.execute()
        self.assertEqual([reply[2] for reply in replies], list(range(99, -1, -1)))
        self.assertGreater(self.client.info("commandstats")["cmdstat_exec"]["calls"], 0)

    def test_plain(self):
        with self.client.pipeline(transaction=False) as pipe:
            self.fill(pipe, 100)
            replies = pipe.execute()
        self.assertEqual([reply[2] for reply in replies], list(range(99, -1, -1)))

    def test_errors_in_place(self):
        for transaction in (True, False):
            with self.client.pipeline(transaction=transaction) as pipe:
                self.fill(pipe, 1)
                pipe.execute_command("CL.THROTTLE", "key", "x", 1, HOUR)
                pipe.ping()
                replies = pipe.execute(raise_on_error=False)
            self.assertEqual(replies[0][0], 0)
            self.assertIsInstance(replies[1], redis.ResponseError)
            self.assertIs(replies[2], True)

    def test_aborted(self):
        with self.client.pipeline() as pipe:
            self.fill(pipe, 1)
            pipe.execute_command("CL.THROTTLE", "key")
            with self.assertRaises(redis.ResponseError):
                pipe.execute()
        self.assertEqual(self.client.exists("key"), 0)

    def test_watch(self):
        with self.client.pipeline() as pipe:
            pipe.watch("key")
            self.throttle("key", 99)
            pipe.multi()
            self.fill(pipe, 1)
            with self.assertRaises(redis.WatchError):
                pipe.execute()
            pipe.watch("key")
            pipe.multi()
            self.fill(pipe, 1)
            self.assertEqual(pipe.execute()[0][2], 98)


class Connections(ServerCase):
    def test_wrong_credentials(self):
        for error, text, credentials in (
            (redis.AuthenticationError, "Authentication required", {}),
            (redis.ResponseError, "WRONGPASS", {"password": "wrong"}),
            (redis.ResponseError, "WRONGPASS", {"username": "stranger", "password": PASSWORD}),
        ):
            with self.assertRaisesRegex(error, text):
                self.open(host=HOST, port=SECURED_PORT, **credentials).ping()

    def test_url(self):
        url = f"redis://default:{PASSWORD}@{HOST}:{SECURED_PORT}/0?client_name=by-url"
        client = redis.Redis.from_url(url, health_check_interval=1)
        self.addCleanup(client.connection_pool.disconnect)
        self.assertEqual(client.client_getname(), "by-url")

    def test_threads(self):
        admitted, errors = [], []

        def work():
            try:
                for _ in range(25):
                    limited, _, remaining, _, _ = self.throttle("key", 99)
                    if not limited:
                        admitted.append(remaining)
            except redis.RedisError as error:
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        self.assertEqual(sorted(admitted), list(range(100)))

    def test_reuse(self):
        self.client.ping()
        before = self.client.info("stats")["total_connections_received"]
        for _ in range(100):
            self.client.ping()
        self.assertEqual(self.client.info("stats")["total_connections_received"], before)

    def test_killed(self):
        own = self.client.client_id()
        other = self.open(host=HOST, port=PORT)
        self.assertEqual(other.client_kill_filter(_id=own), 1)

        def present():
            try:
                return self.client.client_id()
            except redis.ConnectionError:  # it was closed during the call
                return own

        self.assertTrue(any(present() != own for _ in range(1000)))

    def test_subscribe(self):
        with self.client.pubsub() as sub:
            sub.subscribe("news")
            message = sub.get_message(timeout=10)
            self.assertEqual((message["type"], message["channel"], message["data"]), ("subscribe", b"news", 1))
            sub.ping("hello")
            self.assertEqual(sub.get_message(timeout=10)["data"], b"hello")
            sub.unsubscribe()
            self.assertEqual(sub.get_message(timeout=10)["type"], "unsubscribe")

    def test_publish(self):
        with self.client.pubsub(ignore_subscribe_messages=True) as sub:
            sub.subscribe("news")
            self.assertIsNone(sub.get_message(timeout=10))
            other = self.open(host=HOST, port=PORT)
            self.assertEqual(other.publish("news", "hello"), 1)
            self.assertEqual(sub.get_message(timeout=10)["data"], b"hello")
            self.assertEqual(other.pubsub_channels(), [b"news"])
            self.assertEqual(other.pubsub_numsub("news", "olds"), [(b"news", 1), (b"olds", 0)])

    def test_monitor(self):
        with self.client.monitor() as monitor:
            self.open(host=HOST, port=PORT).execute_command("CL.THROTTLE", "key", 1, 1, HOUR)
            self.assertEqual(monitor.next_command()["command"], "CL.THROTTLE key 1 1 3600")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
