<?php

namespace App\Http\Middleware;

use Closure;
use Illuminate\Http\JsonResponse;
use Illuminate\Http\Request;
use Illuminate\Support\Facades\Log;
use Illuminate\Support\Facades\Redis;
use RedisException;
use Symfony\Component\HttpFoundation\Response;

/** Checks requests with CL.CHECK. If the limiter does not decide within the timeouts in config/database.php, it admits them. */
final class RateLimit
{
    private const UNITS = ['s' => 1, 'm' => 60, 'h' => 3600, 'd' => 86400, 'w' => 604800, 'mo' => 2592000, 'y' => 31536000];

    public function handle(Request $request, Closure $next): Response
    {
        try {
            $reply = $this->check($request);
        } catch (RedisException $e) {
            // Count these lines: PHP has no counter that requests share.
            Log::warning('rate limiter: admitted without a decision: ' . $e->getMessage());
            return $next($request);
        }
        [$limited, $limit, $remaining, $retryAfter, $resetAfter, $name, , $limits] = $reply;
        $live = array_values(array_filter($limits, fn ($l) => !in_array('shadow', $l[7], true) && $l[3] < PHP_INT_MAX));
        $wait = $limited && $retryAfter >= 0 ? max($retryAfter, 1) : null; // null: no wait helps
        $response = $limited ? $this->refuse($live, $wait) : $next($request);
        if ($live) {
            $response->headers->add([
                'RateLimit-Policy' => implode(', ', array_map([$this, 'policy'], $live)),
                'RateLimit' => sprintf('"%s";r=%d;t=%d', $name ?: 'default', $remaining, $wait ?? $resetAfter),
                'X-RateLimit-Limit' => $limit, 'X-RateLimit-Remaining' => $remaining, 'X-RateLimit-Reset' => $resetAfter,
            ]);
        }
        return $response;
    }

    /** The route is the pattern of the path, so other spellings of the path do not evade the limit. */
    private function check(Request $request): array
    {
        $user = $request->user();
        $limiter = Redis::connection('limiter');
        $reply = $limiter->executeRaw(['CL.CHECK', 'shop', 'route', $request->route()->uri(), 'ip', (string) $request->ip(),
            'user', $user ? (string) $user->getAuthIdentifier() : '']);
        if (!is_array($reply)) { // phpredis returns false for an error reply
            throw new RedisException($limiter->client()->getLastError() ?? 'unexpected reply');
        }
        return $reply;
    }

    private function policy(array $limit): string
    {
        [$name, $window, , $amount] = $limit;
        $unit = preg_match('/^(\d+)([a-z]+)$/', $window, $period) ? self::UNITS[$period[2]] ?? 0 : 0;
        return sprintf('"%s";q=%d', $name ?: 'default', $amount) . ($unit ? ';w=' . $period[1] * $unit : '');
    }

    private function refuse(array $live, ?int $wait): JsonResponse
    {
        $problem = [
            'type' => 'https://iana.org/assignments/http-problem-types#quota-exceeded', 'title' => 'Quota exceeded', 'status' => 429,
            'error' => 'rate_limited', 'message' => 'too many requests: retry later',
            'violated-policies' => array_values(array_map(fn ($l) => $l[0] ?: 'default', array_filter($live, fn ($l) => $l[2] === 1))),
        ] + ($wait ? ['retry_after_seconds' => $wait] : []);
        $headers = ['Content-Type' => 'application/problem+json', 'Cache-Control' => 'no-store'] + ($wait ? ['Retry-After' => $wait] : []);
        return new JsonResponse($problem, 429, $headers, JSON_UNESCAPED_SLASHES);
    }
}
