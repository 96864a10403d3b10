# Limits the users whose names are read from standard input. Needs redis-rb 4.
#
# The client gets the leader from the cluster port of the nodes. It does not repeat a call whose connection is refused or lost, so the
# program does. If a node exits while it accepts a connection, redis-rb 4 raises Errno::ECONNRESET. A repeated call may charge twice.

require "redis"

nodes = ENV.fetch("THROTTLED_NODES", "127.0.0.1:6384").split(",").map { |node| node.split(":") }
client = Redis.new(cluster: nodes.map { |host, port| { host: host, port: port.to_i } }, password: ENV["THROTTLED_PASSWORD"])

# Makes a call, and repeats it for up to 5 s while its connection fails.
def persist
  deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 5
  begin
    yield
  rescue Redis::BaseConnectionError, Errno::ECONNRESET
    raise if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline # the program chooses whether the request is admitted

    sleep 0.02
    retry
  end
end

$stdout.sync = true
$stdin.each_line(chomp: true) do |user|
  # Bursts of up to 16, and 30 calls an hour.
  limited, _limit, remaining, retry_after = persist { client.call("CL.THROTTLE", "user:#{user}", 15, 30, 3600) }
  puts limited == 1 ? "refused; retry after #{retry_after} s" : "admitted; #{remaining} remain"
end
