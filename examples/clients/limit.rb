# Limits the users whose names are read from standard input. Needs redis-rb 4.
#
# The client asks the Sentinel port of the nodes for the leader, and repeats calls while there is no leader.

require "redis"

nodes = ENV.fetch("THROTTLED_SENTINELS", "127.0.0.1:26380").split(",").map { |node| node.split(":") }
password = ENV["THROTTLED_PASSWORD"]
client = Redis.new(
  url: "redis://mymaster", role: :master, password: password,
  sentinels: nodes.map { |host, port| { host: host, port: port.to_i, password: password } },
  reconnect_attempts: 12, reconnect_delay: 0.05, reconnect_delay_max: 0.2
)

$stdout.sync = true
$stdin.each_line(chomp: true) do |user|
  # Bursts of up to 16, and 30 calls an hour.
  limited, _limit, remaining, retry_after = client.call("CL.THROTTLE", "user:#{user}", 15, 30, 3600)
  puts limited == 1 ? "refused; retry after #{retry_after} s" : "admitted; #{remaining} remain"
end
