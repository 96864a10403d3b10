<?php
// The checks of the client matrix for clients of PHP, which have one caller per process; see README.md.

error_reporting(E_ALL);
set_error_handler(function ($level, $message, $file, $line) {
    if (!(error_reporting() & $level)) {
        return false; // suppressed, or a deprecation in a library
    }
    throw new ErrorException($message, 0, $level, $file, $line);
});

final class Options
{
    public string $check = '', $mode = 'standalone', $key = '', $until = '';
    public ?string $user = null, $password = null, $ca = null;
    public int $resp = 0;
    public array $addresses = [];

    public static function parse(): Options
    {
        $given = getopt('', ['check:', 'addr:', 'mode:', 'resp:', 'user:', 'password:', 'tls-ca:', 'key:', 'callers:', 'until:']);
        $options = new Options();
        foreach (['check', 'mode', 'key', 'until', 'user', 'password'] as $name) {
            $options->$name = $given[$name] ?? $options->$name;
        }
        $options->ca = $given['tls-ca'] ?? null;
        $options->resp = (int) ($given['resp'] ?? 0);
        foreach (array_filter(explode(',', $given['addr'] ?? '')) as $address) {
            $colon = strrpos($address, ':');
            $options->addresses[] = [substr($address, 0, $colon), (int) substr($address, $colon + 1)];
        }
        return $options;
    }
}

// Client is a connection of a library. An error of the server or of the connection is an exception.
interface Client
{
    public function call(array $args);

    public function pipeline(array $commands): array;

    public function transaction(array $commands): array;

    // repeated returns the number of calls that the library failed and this program repeated.
    public function repeated(): int;
}

function write(string $check, array $fields): void
{
    fwrite(STDOUT, json_encode(['check' => $check] + $fields) . "\n");
}

function expect($got, $want): void
{
    if ($got !== $want) {
        throw new RuntimeException('got ' . json_encode($got) . ', want ' . json_encode($want));
    }
}

final class Checks
{
    private Client $client;

    // $open returns a client for options and a password; $error is the class of the library's errors.
    public function __construct(private Options $options, private Closure $open, private string $error)
    {
        $this->client = $open($options, $options->password);
    }

    private function throttle(string $check, ...$limit): array
    {
        return ['CL.THROTTLE', $this->options->key . ':' . $check, ...array_map('strval', $limit)];
    }

    public function connect(): array
    {
        expect($this->client->call($this->throttle('connect', 15, 30, 60)), [0, 16, 15, -1, 2]);
        return [];
    }

    public function pipeline(): array
    {
        $replies = $this->client->pipeline(array_fill(0, 1000, $this->throttle('pipeline', 999, 1, 3600)));
        expect(array_column($replies, 2), range(999, 0));
        return [];
    }

    public function transaction(): array
    {
        $replies = $this->client->transaction(array_fill(0, 10, $this->throttle('transaction', 9, 1, 3600)));
        expect(array_column($replies, 2), range(9, 0));
        return [];
    }

    public function error(): array
    {
        $this->fails(fn () => $this->client->call($this->throttle('error', 'x', 1, 60)), 'max_burst');
        expect(count($this->client->call($this->throttle('error', 15, 30, 60))), 5);
        return [];
    }

    public function auth(): array
    {
        $this->fails(fn () => ($this->open)($this->options, 'wrong')->call(['PING']), 'WRONGPASS');
        return [];
    }

    private function fails(Closure $call, string $text): void
    {
        try {
            $reply = $call();
        } catch (Throwable $error) {
            if (!$error instanceof $this->error || !str_contains($error->getMessage(), $text)) {
                throw new RuntimeException('got ' . get_class($error) . ': ' . $error->getMessage() . ", want {$this->error} with $text");
            }
            return;
        }
        throw new RuntimeException('got ' . json_encode($reply) . ", want {$this->error} with $text");
    }

    public function concurrent(): array
    {
        $admitted = 0;
        for ($i = 0; $i < 4; $i++) {
            $admitted += 1 - $this->client->call($this->throttle('concurrent', 99, 1, 3600))[0];
        }
        return ['admitted' => $admitted];
    }

    public function reconnect(): array
    {
        $args = $this->throttle('reconnect', 15, 30, 60);
        $this->client->call($args);
        write('reconnect', ['event' => 'ready']);
        fgets(STDIN);
        for ($failed = 0, $deadline = hrtime(true) + 10e9;; $failed++) {
            try {
                $this->client->call($args);
                return ['failed' => $failed];
            } catch (Throwable $error) {
                if (hrtime(true) > $deadline) {
                    throw $error;
                }
            }
            usleep(10000);
        }
    }

    public function load(): array
    {
        [$succeeded, $failed, $gap, $errors, $last] = [0, 0, 0, [], hrtime(true)];
        $args = $this->throttle('load', 1000000, 1000000, 60);
        for (; !file_exists($this->options->until); usleep(10000), clearstatcache()) {
            try {
                $this->client->call($args);
            } catch (Throwable $error) {
                $text = substr(get_class($error) . ': ' . $error->getMessage(), 0, 200);
                $errors[$text] = ($errors[$text] ?? 0) + 1;
                $failed++;
                continue;
            }
            $now = hrtime(true);
            [$gap, $last] = [max($gap, $now - $last), $now];
            if (++$succeeded === 100) {
                $gap = 0; // without the time in which the client connects
                write('load', ['event' => 'begun']);
            }
        }
        $silent = hrtime(true) - $last;
        return ['calls' => $succeeded + $failed, 'gap_ms' => max($gap, $silent) / 1e6, 'last_ms' => $silent / 1e6, 'errors' => [(object) $errors],
            'repeated' => $this->client->repeated()];
    }
}

function main(string $version, Closure $open, string $error): void
{
    $options = Options::parse();
    $checks = null;
    foreach (explode(',', $options->check) as $name) {
        if ($name === 'version') {
            write($name, ['ok' => true, 'detail' => $version]);
            continue;
        }
        try {
            $checks ??= new Checks($options, $open, $error);
            write($name, ['ok' => true] + $checks->$name());
        } catch (Throwable $error_) {
            write($name, ['ok' => false, 'detail' => get_class($error_) . ': ' . $error_->getMessage()]);
        }
    }
}
