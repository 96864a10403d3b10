"""A middleware for FastAPI that checks requests with CL.CHECK. If the limiter does not decide before the deadline, it admits them."""
import asyncio
import logging
import os
import re
import time

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse
from starlette.routing import Match

DEADLINE = int(os.environ.get("LIMITER_DEADLINE_MS", "50")) / 1000  # seconds
UNLIMITED = 2**63 - 1
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "mo": 2592000, "y": 31536000}
log = logging.getLogger("uvicorn.error")


class RateLimit:
    failures = 0  # requests admitted without a decision; export it as a metric
    last_log = float("-inf")

    def __init__(self, app):
        self.app = app
        # A call is not retried: it could be charged twice. A connection whose call has timed out is closed.
        pool = BlockingConnectionPool.from_url(
            os.environ.get("LIMITER_URL", "redis://127.0.0.1:6380"), protocol=2, decode_responses=True,
            max_connections=50, timeout=DEADLINE, socket_timeout=DEADLINE, socket_connect_timeout=DEADLINE, retry=Retry(NoBackoff(), 0))
        self.limiter = Redis(connection_pool=pool)

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        try:
            async with asyncio.timeout(DEADLINE):
                reply = await self.limiter.execute_command("CL.CHECK", "shop", *attributes(scope))
        except (RedisError, OSError, TimeoutError) as error:
            self.admit_without_decision(error)
            return await self.app(scope, receive, send)
        headers, problem = response_to(reply)
        if problem:
            return await JSONResponse(problem, 429, headers, "application/problem+json")(scope, receive, send)

        async def send_with_headers(message):
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(headers)
            await send(message)

        await self.app(scope, receive, send_with_headers)

    def admit_without_decision(self, error):
        RateLimit.failures += 1
        if time.monotonic() - self.last_log >= 1:
            self.last_log = time.monotonic()
            log.warning("rate limiter: admitted without a decision (%d so far): %r", self.failures, error)


def attributes(scope):
    """The route is the template of the path, so other spellings of the path do not evade the limit."""
    route = next((r.path for r in scope["app"].routes if r.matches(scope)[0] is Match.FULL), "")
    user, client = scope.get("user"), scope.get("client")
    return ("route", route, "ip", client[0] if client else "", "user", user.identity if user and user.is_authenticated else "")


def policy(name, window, _limited, limit, *_):
    period = re.fullmatch(r"(\d+)([a-z]+)", window)
    return f'"{name or "default"}";q={limit}' + (f";w={int(period[1]) * UNITS[period[2]]}" if period and period[2] in UNITS else "")


def response_to(reply):
    """Returns the headers of the response and, for a refused request, its body."""
    limited, limit, remaining, retry_after, reset_after, name, _flags, limits = reply[:8]
    live = [amount for amount in limits if "shadow" not in amount[7] and amount[3] < UNLIMITED]
    wait = max(retry_after, 1) if limited and retry_after >= 0 else None  # None: no wait helps
    headers = {}
    if live:
        headers = {
            "RateLimit-Policy": ", ".join(policy(*amount) for amount in live),
            "RateLimit": f'"{name or "default"}";r={remaining};t={wait or reset_after}',
            "X-RateLimit-Limit": str(limit), "X-RateLimit-Remaining": str(remaining), "X-RateLimit-Reset": str(reset_after),
        }
    if not limited:
        return headers, None
    headers |= {"Cache-Control": "no-store"} | ({"Retry-After": str(wait)} if wait else {})
    return headers, {
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded", "title": "Quota exceeded", "status": 429,
        "error": "rate_limited", "message": "too many requests: retry later",
        **({"retry_after_seconds": wait} if wait else {}),
        "violated-policies": [amount[0] or "default" for amount in live if amount[2]],
    }
