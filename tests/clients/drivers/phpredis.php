<?php
// Driver of phpredis; see README.md.

require __DIR__ . '/checks.php';

final class PhpRedis implements Client
{
    private ?Redis $redis = null;
    private int $repeated = 0;

    public function __construct(private Options $options, private ?string $password)
    {
        $this->connection();
    }

    // connection returns the connection. After an error it is opened anew. Attempts are repeated for up to 2 s, because until the
    // election the Sentinels return the address of the lost leader.
    private function connection(): Redis
    {
        for ($attempt = 1, $deadline = hrtime(true) + 2e9; $this->redis === null; $attempt++, usleep(20000)) {
            try {
                return $this->redis = $this->dial();
            } catch (RedisException $error) {
                if ($this->options->mode !== 'sentinel' || str_contains($error->getMessage(), 'WRONGPASS') || hrtime(true) > $deadline) {
                    throw $error;
                }
                $this->repeated += $attempt === 1 ? 1 : 0;
            }
        }
        return $this->redis;
    }

    public function repeated(): int
    {
        return $this->repeated;
    }

    private function dial(): Redis
    {
        [$host, $port] = $this->options->mode === 'sentinel' ? $this->leader() : $this->options->addresses[0];
        $redis = new Redis();
        $tls = $this->options->ca === null ? [] : ['stream' => ['cafile' => $this->options->ca]];
        $redis->connect(($tls ? 'tls://' : '') . $host, $port, 1, null, 0, 2, $tls);
        if ($this->password !== null) {
            $redis->auth($this->credentials());
        }
        return $redis;
    }

    private function credentials(): string|array
    {
        return $this->options->user === null ? $this->password : [$this->options->user, $this->password];
    }

    // leader asks the Sentinels for the address of the leader.
    private function leader(): array
    {
        foreach ($this->options->addresses as [$host, $port]) {
            try {
                $sentinel = new RedisSentinel($host, $port, 0.5, null, 0, 0.5, $this->credentials());
                $address = $sentinel->getMasterAddrByName('mymaster');
                if ($address) {
                    return [$address[0], (int) $address[1]];
                }
            } catch (RedisException $error) {
                $last = $error;
            }
        }
        throw $last ?? new RedisException('no Sentinel knows the leader');
    }

    public function call(array $args)
    {
        return $this->run(fn (Redis $redis) => $redis->rawCommand(...$args));
    }

    public function pipeline(array $commands): array
    {
        return $this->queue(Redis::PIPELINE, $commands);
    }

    public function transaction(array $commands): array
    {
        return $this->queue(Redis::MULTI, $commands);
    }

    private function queue(int $kind, array $commands): array
    {
        return $this->run(function (Redis $redis) use ($kind, $commands) {
            $redis->multi($kind);
            foreach ($commands as $args) {
                $redis->rawCommand(...$args);
            }
            return $redis->exec();
        });
    }

    // run converts an error reply, which phpredis returns as false, to an exception.
    private function run(Closure $work)
    {
        $redis = $this->connection();
        try {
            $redis->clearLastError();
            $reply = $work($redis);
        } catch (RedisException $error) {
            $this->redis = null;
            throw $error;
        }
        if ($reply === false && $redis->getLastError() !== null) {
            throw new RedisException($redis->getLastError());
        }
        return $reply;
    }
}

main(phpversion('redis'), fn (Options $options, ?string $password) => new PhpRedis($options, $password), RedisException::class);
