# Driver of redis-rb; see README.md.

require "json"
require "optparse"
require "redis"

FIRST_DECISION = [0, 16, 15, -1, 2].freeze

def parse
  options = { mode: "standalone", callers: "1", addr: "" }
  OptionParser.new do |parser|
    %w[check addr mode resp user password tls-ca key callers until].each { |name| parser.on("--#{name} VALUE") { |value| options[name.to_sym] = value } }
  end.parse!
  options[:addresses] = options[:addr].split(",").map { |addr| host, _, port = addr.rpartition(":"); { host: host, port: port.to_i } }
  options
end

def write(check, **fields)
  $stdout.puts(JSON.generate({ check: check, **fields }))
  $stdout.flush
end

def expect(got, want)
  raise "got #{got.inspect}, want #{want.inspect}" unless got == want
end

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

# Opens a client. Sentinel clients retry for longer than an election takes.
def open_client(options, password)
  settings = { username: options[:user], password: password }.compact
  settings[:ssl] = true if options[:"tls-ca"]
  settings[:ssl_params] = { ca_file: options[:"tls-ca"] } if options[:"tls-ca"]
  case options[:mode]
  when "standalone" then Redis.new(**options[:addresses][0], **settings)
  when "cluster" then Redis.new(cluster: options[:addresses], **settings)
  when "sentinel"
    sentinels = options[:addresses].map { |address| address.merge(settings.slice(:password, :username)) }
    Redis.new(url: "redis://mymaster", sentinels: sentinels, role: :master, **settings, **RETRIES)
  end
end

RETRIES = { reconnect_attempts: 10, reconnect_delay: 0.05, reconnect_delay_max: 0.2 }.freeze

# Repeats a call whose connection is refused or lost. With a cluster, the library reads the topology after such an error, but
# does not repeat the call. If a node exits while it accepts the connection, version 4 raises the error of the system. A repeated call
# may charge twice.
def persist(counts)
  deadline = now + 5
  repeated = false
  begin
    yield
  rescue Redis::BaseConnectionError, Errno::ECONNRESET
    raise if now > deadline

    counts.note_repeated unless repeated
    repeated = true
    sleep 0.02
    retry
  end
end

# The checks, which share one client.
class Checks
  def initialize(options)
    @options = options
    @client = open_client(options, options[:password])
  end

  def throttle(check, *limit)
    ["CL.THROTTLE", "#{@options[:key]}:#{check}", *limit.map(&:to_s)]
  end

  def connect
    expect(@client.call(*throttle("connect", 15, 30, 60)), FIRST_DECISION)
  end

  def pipeline
    replies = @client.pipelined { |pipe| 1000.times { pipe.call(*throttle("pipeline", 999, 1, 3600)) } }
    expect(replies.map { |reply| reply[2] }, 999.downto(0).to_a)
  end

  def transaction
    replies = @client.multi { |pipe| 10.times { pipe.call(*throttle("transaction", 9, 1, 3600)) } }
    expect(replies.map { |reply| reply[2] }, 9.downto(0).to_a)
  end

  def error
    fails("max_burst") { @client.call(*throttle("error", "x", 1, 60)) }
    expect(@client.call(*throttle("error", 15, 30, 60)).size, 5)
  end

  def auth
    fails("WRONGPASS") { open_client(@options, "wrong").call("PING") }
  end

  def fails(text)
    reply = yield
  rescue Redis::BaseError => error
    expect(error.message.include?(text), true)
  else
    raise "got #{reply.inspect}, want an error"
  end

  def concurrent
    admitted = Array.new(@options[:callers].to_i) do
      Thread.new { Array.new(4) { @client.call(*throttle("concurrent", 99, 1, 3600))[0] }.count(0) }
    end.sum(&:value)
    { admitted: admitted }
  end

  def reconnect
    args = throttle("reconnect", 15, 30, 60)
    @client.call(*args)
    write("reconnect", event: "ready")
    $stdin.gets
    failed = 0
    deadline = now + 10
    begin
      @client.call(*args)
    rescue Redis::BaseError
      raise if now > deadline

      failed += 1
      sleep 0.01
      retry
    end
    { failed: failed }
  end

  def load
    counts = Counts.new
    args = throttle("load", 1_000_000, 1_000_000, 60)
    errors = Array.new(@options[:callers].to_i) do
      Thread.new { call_until_end(counts, args) }
    end.map(&:value)
    counts.fields(errors)
  end

  # Makes the calls of one caller, and returns its number of errors by text.
  def call_until_end(counts, args)
    errors = Hash.new(0)
    until File.exist?(@options[:until])
      begin
        @options[:mode] == "cluster" ? persist(counts) { @client.call(*args) } : @client.call(*args)
        counts.note
      rescue StandardError => error
        errors["#{error.class}: #{error.message}"[0, 200]] += 1
      end
      sleep 0.01
    end
    errors
  end
end

# The calls of all callers.
class Counts
  def initialize
    @lock = Mutex.new
    @succeeded = 0
    @repeated = 0
    @gap = 0
    @last = now
  end

  def note_repeated
    @lock.synchronize { @repeated += 1 }
  end

  def note
    @lock.synchronize do
      time = now
      @gap = [@gap, time - @last].max
      @last = time
      @succeeded += 1
      if @succeeded == 100
        @gap = 0 # without the time in which the client connects
        write("load", event: "begun")
      end
    end
  end

  # Returns the fields of the result. The argument has the errors of each caller.
  def fields(errors)
    silent = now - @last
    calls = @succeeded + errors.sum { |list| list.values.sum }
    { calls: calls, gap_ms: 1000 * [@gap, silent].max, last_ms: 1000 * silent, errors: errors, repeated: @repeated }
  end
end

options = parse
checks = nil
options[:check].split(",").each do |name|
  next write(name, ok: true, detail: Redis::VERSION) if name == "version"

  checks ||= Checks.new(options)
  fields = checks.public_send(name)
  write(name, ok: true, **(fields.is_a?(Hash) ? fields : {}))
rescue StandardError => error
  write(name, ok: false, detail: "#{error.class}: #{error.message}")
end
