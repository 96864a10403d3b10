// A middleware for Express that checks requests with CL.CHECK. If the limiter does not decide before the deadline, it admits them.
import Redis from "ioredis";

const DEADLINE = Number(process.env.LIMITER_DEADLINE_MS ?? 50);

const redis = new Redis(process.env.LIMITER_URL ?? "redis://127.0.0.1:6380", {
  protocol: 2, // the reply to CL.CHECK is an array
  commandTimeout: DEADLINE,
  connectTimeout: 1000,
  socketTimeout: DEADLINE + 2000, // closes a connection without replies: its pending commands would accumulate
  enableOfflineQueue: false, // without a connection, commands fail immediately
  autoResendUnfulfilledCommands: false, // a command that is sent again could be charged twice
  retryStrategy: (attempt) => Math.min(50 * attempt, 1000),
});
redis.on("error", () => {}); // each request reports its own error

export const failures = { total: 0 }; // requests admitted without a decision; export it as a metric
let lastLog = 0;

function admitWithoutDecision(error) {
  failures.total++;
  if (Date.now() - lastLog < 1000) return;
  lastLog = Date.now();
  console.warn(`rate limiter: admitted without a decision (${failures.total} so far): ${error.message}`);
}

const UNITS = { s: 1, m: 60, h: 3600, d: 86400, w: 604800, mo: 2592000, y: 31536000 };

function policy([name, window, , limit]) {
  const [, count, unit] = /^(\d+)([a-z]+)$/.exec(window) ?? [];
  return `"${name || "default"}";q=${limit}` + (UNITS[unit] ? `;w=${count * UNITS[unit]}` : "");
}

// rateLimit returns the middleware of a route. Its name is a constant, so other spellings of the path do not evade the limit.
export function rateLimit(route) {
  return async (req, res, next) => {
    let reply;
    try {
      reply = await redis.call("CL.CHECK", "shop", "route", route, "ip", req.ip ?? "", "user", req.user?.id ?? "");
    } catch (error) {
      admitWithoutDecision(error);
      return next();
    }
    const [limited, limit, remaining, retryAfter, resetAfter, name, , limits] = reply;
    const live = limits.filter((l) => !l[7].includes("shadow") && l[3] <= Number.MAX_SAFE_INTEGER);
    const wait = limited && retryAfter >= 0 ? Math.max(retryAfter, 1) : undefined; // undefined: no wait helps
    if (live.length > 0) {
      res.set("RateLimit-Policy", live.map(policy).join(", "));
      res.set("RateLimit", `"${name || "default"}";r=${remaining};t=${wait ?? resetAfter}`);
      res.set({ "X-RateLimit-Limit": `${limit}`, "X-RateLimit-Remaining": `${remaining}`, "X-RateLimit-Reset": `${resetAfter}` });
    }
    if (!limited) return next();
    if (wait !== undefined) res.set("Retry-After", `${wait}`);
    res.status(429).set("Cache-Control", "no-store").type("application/problem+json").send(JSON.stringify({
      type: "https://iana.org/assignments/http-problem-types#quota-exceeded",
      title: "Quota exceeded",
      status: 429,
      error: "rate_limited",
      message: "too many requests: retry later",
      retry_after_seconds: wait,
      "violated-policies": live.filter((l) => l[2]).map((l) => l[0] || "default"),
    }));
  };
}
