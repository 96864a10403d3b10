<?php

return [
    'redis' => [
        'client' => 'phpredis',
        'limiter' => [
            'url' => env('LIMITER_URL', 'redis://127.0.0.1:6380'),
            'database' => 0,
            'timeout' => env('LIMITER_DEADLINE_MS', 50) / 1000, // seconds to connect
            'read_timeout' => env('LIMITER_DEADLINE_MS', 50) / 1000, // seconds to reply
        ],
    ],
];
