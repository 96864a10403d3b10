"""Driver of redis-cli, of which each call is a process; see README.md. It has one caller per process."""

import json
import subprocess

import checks


class CallError(Exception):
    """The exit code of redis-cli is not 0."""


class Client:
    error = CallError

    def __init__(self, options, password):
        host, port = options.addresses[0]
        self.line = ["redis-cli", "-e", "-h", host, "-p", str(port)]
        for given, words in ((options.resp == 2, ["-2"]), (options.resp == 3, ["-3"]), 
                             (options.user, ["--user", options.user]), (password, ["--no-auth-warning", "--pass", password]),
                             (options.tls_ca, ["--tls", "--cacert", options.tls_ca])):
            if given:
                self.line += words

    def run(self, words, text=None):
        done = subprocess.run(self.line + words, input=text, capture_output=True, text=True, check=False)
        if done.returncode != 0 or "ERR" in done.stderr or "WRONGPASS" in done.stderr:
            raise CallError((done.stdout + done.stderr).strip())
        return done.stdout

    def call(self, *args):
        return json.loads(self.run(["--json", *map(str, args)]))

    # A pipeline is the input of one process, which prints the five integers of each reply on lines of their own.
    def pipeline(self, commands):
        return self.decisions(commands, commands)

    def transaction(self, commands):
        return self.decisions([["MULTI"], *commands, ["EXEC"]], commands)

    def decisions(self, commands, counted):
        text = "".join(" ".join(f'"{word}"' for word in command) + "\n" for command in commands)
        numbers = [int(line) for line in self.run([], text).split()[-5 * len(counted):]]
        return [numbers[i:i + 5] for i in range(0, len(numbers), 5)]


def concurrently(callers, work):
    work()


version = subprocess.run(["redis-cli", "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
checks.main(version, Client, concurrently)
