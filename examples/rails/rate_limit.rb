# Checks the requests of a controller with CL.CHECK. If the limiter does not decide before the deadline, they are admitted.
module RateLimit
  extend ActiveSupport::Concern

  DEADLINE = Integer(ENV.fetch("LIMITER_DEADLINE_MS", 50)) / 1000.0 # seconds
  UNLIMITED = 2**63 - 1
  UNITS = { "s" => 1, "m" => 60, "h" => 3600, "d" => 86_400, "w" => 604_800, "mo" => 2_592_000, "y" => 31_536_000 }.freeze
  TRUSTED_PROXIES = ENV.fetch("TRUSTED_PROXIES", "").split(",").map { |network| IPAddr.new(network) }.freeze
  # One connection for each thread, so that no thread waits for the deadline of another one. A call is not retried: it could be charged twice.
  LIMITER = ConnectionPool.new(size: Integer(ENV.fetch("RAILS_MAX_THREADS", 5)), timeout: DEADLINE) do
    Redis.new(url: ENV.fetch("LIMITER_URL", "redis://127.0.0.1:6380"), timeout: DEADLINE, reconnect_attempts: 0)
  end
  FAILURES = Concurrent::AtomicFixnum.new # requests admitted without a decision; export it as a metric

  included { before_action :check_rate_limit }

  private

  # The route is the action, so other spellings of the path do not evade the limit.
  def check_rate_limit
    reply = LIMITER.with do |limiter|
      limiter.call("CL.CHECK", "shop", "route", "#{controller_path}##{action_name}", "ip", client_ip, "user", rate_limit_user.to_s)
    end
    limited, limit, remaining, retry_after, reset_after, name, _flags, limits = reply
    live = limits.select { |amount| !amount[7].include?("shadow") && amount[3] < UNLIMITED }
    wait = [retry_after, 1].max if limited == 1 && retry_after >= 0 # nil: no wait helps
    rate_limit_headers(live, limit, remaining, reset_after, wait, name) if live.any?
    refuse(live, wait) if limited == 1
  rescue Redis::BaseError, ConnectionPool::TimeoutError, SystemCallError => error # see FAILURES
    total = FAILURES.increment
    logger.warn("rate limiter: admitted without a decision (#{total} so far): #{error.class}: #{error.message}")
  end

  def rate_limit_headers(live, limit, remaining, reset_after, wait, name)
    response.set_header("RateLimit-Policy", live.map { |amount| policy(*amount) }.join(", "))
    response.set_header("RateLimit", %("#{name.presence || 'default'}";r=#{remaining};t=#{wait || reset_after}))
    response.set_header("X-RateLimit-Limit", limit.to_s)
    response.set_header("X-RateLimit-Remaining", remaining.to_s)
    response.set_header("X-RateLimit-Reset", reset_after.to_s)
  end

  def policy(name, window, _limited, limit, *)
    period = /\A(\d+)([a-z]+)\z/.match(window)
    unit = period && UNITS[period[2]]
    %("#{name.presence || 'default'}";q=#{limit}) + (unit ? ";w=#{period[1].to_i * unit}" : "")
  end

  def refuse(live, wait)
    response.set_header("Retry-After", wait.to_s) if wait
    response.set_header("Cache-Control", "no-store")
    problem = { type: "https://iana.org/assignments/http-problem-types#quota-exceeded", title: "Quota exceeded", status: 429,
                error: "rate_limited", message: "too many requests: retry later", retry_after_seconds: wait,
                "violated-policies": live.select { |amount| amount[2] == 1 }.map { |amount| amount[0].presence || "default" } }
    render json: problem.compact, status: :too_many_requests, content_type: "application/problem+json"
  end

  # The peer or, if it is a trusted proxy, the right-most entry of X-Forwarded-For that is not one. request.remote_ip is not used:
  # it believes X-Forwarded-For of any peer, and the header Client-Ip.
  def client_ip
    hops = request.get_header("HTTP_X_FORWARDED_FOR").to_s.split(",").map(&:strip) << request.get_header("REMOTE_ADDR")
    hops.reverse.find { |hop| !trusted_proxy?(hop) } || hops.first
  end

  def trusted_proxy?(hop)
    TRUSTED_PROXIES.any? { |network| network.include?(hop) }
  rescue IPAddr::Error
    false
  end

  # The verified user of the request, or nil. Controllers override it.
  def rate_limit_user; end
end
