"""The checks of the client matrix for blocking clients in Python; see README.md."""

import argparse
import collections
import json
import os
import sys
import threading
import time

FIRST_DECISION = [0, 16, 15, -1, 2]


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", required=True)
    parser.add_argument("--addr", default="")
    parser.add_argument("--mode", default="standalone")
    parser.add_argument("--resp", type=int)
    for name in ("user", "password", "tls-ca", "key", "until"):
        parser.add_argument("--" + name)
    parser.add_argument("--callers", type=int, default=1)
    options = parser.parse_args()
    options.addresses = [(host, int(port)) for host, _, port in (addr.rpartition(":") for addr in options.addr.split(",")) if port]
    return options


def write(check, **fields):
    print(json.dumps({"check": check, **fields}), flush=True)


def expect(got, want):
    if got != want:
        raise AssertionError(f"got {got!r}, want {want!r}")


class Load:
    """Counts the calls of all callers."""

    def __init__(self):
        self.lock = threading.Lock()
        self.succeeded, self.errors = 0, []
        self.gap, self.last = 0.0, time.monotonic()

    def add_caller(self):
        """Returns the counter for the errors of a further caller."""
        with self.lock:
            self.errors.append(collections.Counter())
            return self.errors[-1]

    def note(self):
        with self.lock:
            now = time.monotonic()
            self.gap, self.last = max(self.gap, now - self.last), now
            self.succeeded += 1
            if self.succeeded == 100:
                self.gap = 0.0  # without the time in which the callers connect
                write("load", event="begun")

    def fields(self):
        silent = time.monotonic() - self.last
        failed = sum(sum(errors.values()) for errors in self.errors)
        return dict(calls=self.succeeded + failed, gap_ms=round(1000 * max(self.gap, silent), 1),
                    last_ms=round(1000 * silent, 1), errors=self.errors)


class Checks:
    def __init__(self, options, client_class, concurrently):
        self.options, self.open, self.concurrently = options, client_class, concurrently
        self.client = client_class(options, options.password)

    def throttle(self, check, *limit):
        return ("CL.THROTTLE", f"{self.options.key}:{check}", *limit)

    def connect(self):
        expect(self.client.call(*self.throttle("connect", 15, 30, 60)), FIRST_DECISION)

    def pipeline(self):
        replies = self.client.pipeline([self.throttle("pipeline", 999, 1, 3600)] * 1000)
        expect([reply[2] for reply in replies], list(range(999, -1, -1)))

    def transaction(self):
        replies = self.client.transaction([self.throttle("transaction", 9, 1, 3600)] * 10)
        expect([reply[2] for reply in replies], list(range(9, -1, -1)))

    def error(self):
        self.fails(lambda: self.client.call(*self.throttle("error", "x", 1, 60)), "max_burst")
        expect(len(self.client.call(*self.throttle("error", 15, 30, 60))), 5)

    def auth(self):
        self.fails(lambda: self.open(self.options, "wrong").call("PING"), "")

    def fails(self, call, text):
        try:
            reply = call()
        except self.open.error as error:
            expect(text in str(error), True)
        else:
            raise AssertionError(f"got {reply!r}, want an error")

    def concurrent(self):
        admitted, failures = [], []

        def work():
            try:
                for _ in range(4):
                    if self.client.call(*self.throttle("concurrent", 99, 1, 3600))[0] == 0:
                        admitted.append(1)
            except Exception as error:
                failures.append(error)

        self.concurrently(self.options.callers, work)
        if failures:
            raise failures[0]
        return dict(admitted=len(admitted))

    def reconnect(self):
        args = self.throttle("reconnect", 15, 30, 60)
        self.client.call(*args)
        write("reconnect", event="ready")
        sys.stdin.readline()
        failed, deadline = 0, time.monotonic() + 10
        while True:
            try:
                self.client.call(*args)
                return dict(failed=failed)
            except self.open.error:
                failed += 1
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def load(self):
        args, load = self.throttle("load", 1000000, 1000000, 60), Load()

        def work():
            errors = load.add_caller()
            while not os.path.exists(self.options.until):
                try:
                    self.client.call(*args)
                    load.note()
                except Exception as error:
                    errors[f"{type(error).__name__}: {error}"[:200]] += 1
                time.sleep(0.01)

        self.concurrently(self.options.callers, work)
        return dict(load.fields(), repeated=getattr(self.client, "repeated", 0))


def main(version, client_class, concurrently):
    options = parse()
    runner = None
    for name in options.check.split(","):
        if name == "version":
            write(name, ok=True, detail=version)
            continue
        try:
            runner = runner or Checks(options, client_class, concurrently)
            write(name, ok=True, **(getattr(runner, name)() or {}))
        except Exception as error:
            write(name, ok=False, detail=f"{type(error).__name__}: {error}")
