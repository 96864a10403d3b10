package shop;

import jakarta.servlet.DispatcherType;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.net.URI;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.http.HttpStatus;
import org.springframework.http.ProblemDetail;
import org.springframework.stereotype.Component;
import org.springframework.web.ErrorResponseException;
import org.springframework.web.servlet.HandlerInterceptor;
import org.springframework.web.servlet.HandlerMapping;

/** Checks requests with CL.CHECK. If the limiter does not decide before its deadline, it admits them. */
@Component
class RateLimit implements HandlerInterceptor {
    private static final Map<String, Long> UNITS = Map.of(
            "s", 1L, "m", 60L, "h", 3_600L, "d", 86_400L, "w", 604_800L, "mo", 2_592_000L, "y", 31_536_000L);
    private static final Pattern WINDOW = Pattern.compile("(\\d+)([a-z]+)");
    private static final Logger log = LoggerFactory.getLogger(RateLimit.class);

    private final Limiter limiter;
    private final AtomicLong failures = new AtomicLong(); // requests admitted without a decision; export it as a metric
    private final AtomicLong lastLog = new AtomicLong(System.nanoTime() - 1_000_000_000);

    RateLimit(Limiter limiter) {
        this.limiter = limiter;
    }

    @Override
    public boolean preHandle(HttpServletRequest request, HttpServletResponse response, Object handler) throws InterruptedException {
        if (request.getDispatcherType() != DispatcherType.REQUEST) {
            return true; // an error page, or the end of an asynchronous request: the request is already charged
        }
        try {
            // The route is the pattern of the path, so other spellings of the path do not evade the limit.
            var reply = limiter.check("shop",
                    "route", Objects.toString(request.getAttribute(HandlerMapping.BEST_MATCHING_PATTERN_ATTRIBUTE), ""),
                    "ip", request.getRemoteAddr(),
                    "user", Objects.toString(request.getRemoteUser(), ""));
            apply(reply, response);
        } catch (ExecutionException | TimeoutException e) {
            admitWithoutDecision(e);
        }
        return true;
    }

    private void admitWithoutDecision(Exception e) {
        long total = failures.incrementAndGet(), now = System.nanoTime(), last = lastLog.get();
        if (now - last >= 1_000_000_000 && lastLog.compareAndSet(last, now)) {
            log.warn("rate limiter: admitted without a decision ({} so far): {}", total, e.toString());
        }
    }

    /** Sets the headers. Throws the response to a refused request, which Spring writes as application/problem+json. */
    @SuppressWarnings("unchecked")
    private static void apply(List<Object> reply, HttpServletResponse response) {
        boolean limited = number(reply, 0) == 1;
        long retryAfter = number(reply, 3);
        Long wait = limited && retryAfter >= 0 ? Math.max(retryAfter, 1) : null; // null: no wait helps
        var live = ((List<List<Object>>) reply.get(7)).stream()
                .filter(l -> !((List<Object>) l.get(7)).contains("shadow") && number(l, 3) < Long.MAX_VALUE).toList();
        if (!live.isEmpty()) {
            response.setHeader("RateLimit-Policy", live.stream().map(RateLimit::policy).collect(Collectors.joining(", ")));
            response.setHeader("RateLimit", "\"%s\";r=%d;t=%d".formatted(
                    name(reply.get(5)), number(reply, 2), wait != null ? wait : number(reply, 4)));
            response.setHeader("X-RateLimit-Limit", Long.toString(number(reply, 1)));
            response.setHeader("X-RateLimit-Remaining", Long.toString(number(reply, 2)));
            response.setHeader("X-RateLimit-Reset", Long.toString(number(reply, 4)));
        }
        if (limited) {
            response.setHeader("Cache-Control", "no-store");
            throw refusal(response, wait, live.stream().filter(l -> number(l, 2) == 1).map(l -> name(l.get(0))).toList());
        }
    }

    private static ErrorResponseException refusal(HttpServletResponse response, Long wait, List<String> violated) {
        var problem = ProblemDetail.forStatus(HttpStatus.TOO_MANY_REQUESTS);
        problem.setType(URI.create("https://iana.org/assignments/http-problem-types#quota-exceeded"));
        problem.setTitle("Quota exceeded");
        problem.setProperty("error", "rate_limited");
        problem.setProperty("message", "too many requests: retry later");
        problem.setProperty("violated-policies", violated);
        if (wait != null) {
            response.setHeader("Retry-After", wait.toString());
            problem.setProperty("retry_after_seconds", wait);
        }
        return new ErrorResponseException(HttpStatus.TOO_MANY_REQUESTS, problem, null);
    }

    private static String policy(List<Object> limit) {
        var window = WINDOW.matcher((String) limit.get(1));
        Long unit = window.matches() ? UNITS.get(window.group(2)) : null;
        return "\"%s\";q=%d".formatted(name(limit.get(0)), number(limit, 3))
                + (unit == null ? "" : ";w=" + Long.parseLong(window.group(1)) * unit);
    }

    private static String name(Object name) {
        return "".equals(name) ? "default" : (String) name;
    }

    private static long number(List<Object> values, int index) {
        return (Long) values.get(index);
    }
}
