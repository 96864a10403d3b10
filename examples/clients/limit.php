<?php
// Limits the users whose names are read from standard input. Needs phpredis 5.2 or later.
//
// connect() asks the Sentinel port of the nodes for the leader. After an error, the program connects again, for up to two seconds.

$nodes = explode(',', getenv('THROTTLED_SENTINELS') ?: '127.0.0.1:26380');
$password = getenv('THROTTLED_PASSWORD') ?: null;

function connect(array $nodes, ?string $password): Redis
{
    foreach ($nodes as $node) {
        [$host, $port] = explode(':', $node);
        try {
            $leader = (new RedisSentinel($host, (int) $port, 0.5, null, 0, 0.5, $password))->getMasterAddrByName('mymaster');
        } catch (RedisException) {
            continue; // the node is down
        }
        if ($leader) {
            $redis = new Redis();
            $redis->connect($leader[0], (int) $leader[1], 0.5, null, 0, 2);
            if ($password !== null) {
                $redis->auth($password);
            }
            return $redis;
        }
    }
    throw new RedisException('no node knows the leader');
}

function throttle(string $key, array $nodes, ?string $password): array
{
    static $redis = null;
    for ($deadline = microtime(true) + 2;; usleep(20000)) {
        try {
            $redis ??= connect($nodes, $password);
            // Bursts of up to 16, and 30 calls an hour. phpredis returns false for errors such as LOADING.
            $decision = $redis->rawCommand('CL.THROTTLE', $key, 15, 30, 3600);
            if ($decision !== false) {
                return $decision;
            }
            $problem = new RedisException($redis->getLastError());
        } catch (RedisException $problem) {
            $redis = null;
        }
        if (microtime(true) > $deadline) {
            throw $problem;
        }
    }
}

while (($user = fgets(STDIN)) !== false) {
    [$limited, , $remaining, $retryAfter] = throttle('user:' . trim($user), $nodes, $password);
    echo $limited ? "refused; retry after $retryAfter s\n" : "admitted; $remaining remain\n";
}
