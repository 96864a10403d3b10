-- Driver of lua-redis; see README.md. It has one caller per process.

local json = require("cjson")
local redis = require("redis")
local socket = require("socket")

local options = {mode = "standalone", addr = ""}
for i = 1, #arg, 2 do
  options[arg[i]:sub(3)] = arg[i + 1]
end

redis.commands.clthrottle = redis.command("CL.THROTTLE")

local function write(check, fields)
  fields.check = check
  io.write(json.encode(fields), "\n")
  io.flush()
end

local function open(password)
  local host, port = options.addr:match("^([^,]*):(%d+)")
  local client = redis.connect({host = host, port = tonumber(port), timeout = 2})
  if options.user then
    client:raw_cmd("AUTH " .. options.user .. " " .. password .. "\r\n")
  elseif password then
    client:auth(password)
  end
  return client
end

local client

-- call makes a call. A client whose connection has failed is replaced, because the library does not connect again.
local function call(...)
  if not client then
    client = open(options.password)
  end
  local ok, reply = pcall(client.clthrottle, client, ...)
  if ok then
    return reply
  end
  if tostring(reply):find("connection error", 1, true) then
    client = nil
  end
  error(reply, 0)
end

local function key(check)
  return options.key .. ":" .. check
end

local function expect(got, want)
  got, want = json.encode(got), json.encode(want)
  if got ~= want then
    error("got " .. got .. ", want " .. want, 0)
  end
end

local function fails(text, f, ...)
  local ok, message = pcall(f, ...)
  if ok or not tostring(message):find(text, 1, true) then
    error("got " .. tostring(message) .. ", want an error with " .. text, 0)
  end
end

local function remaining(replies)
  local list = {}
  for i, reply in ipairs(replies) do
    list[i] = reply[3]
  end
  return list
end

local function descending(from)
  local list = {}
  for n = from, 0, -1 do
    list[#list + 1] = n
  end
  return list
end

local function queue(target, n, ...)
  for _ = 1, n do
    target:clthrottle(...)
  end
end

local checks = {}

function checks.connect()
  expect(call(key("connect"), 15, 30, 60), {0, 16, 15, -1, 2})
end

function checks.pipeline()
  local replies = client:pipeline(function(pipe) queue(pipe, 1000, key("pipeline"), 999, 1, 3600) end)
  expect(remaining(replies), descending(999))
end

function checks.transaction()
  local replies = client:transaction(function(transaction) queue(transaction, 10, key("transaction"), 9, 1, 3600) end)
  expect(remaining(replies), descending(9))
end

checks["error"] = function()
  fails("max_burst", call, key("error"), "x", 1, 60)
  expect(#call(key("error"), 15, 30, 60), 5)
end

function checks.auth()
  fails("WRONGPASS", open, "wrong")
end

function checks.concurrent()
  local admitted = 0
  for _ = 1, 4 do
    admitted = admitted + 1 - call(key("concurrent"), 99, 1, 3600)[1]
  end
  return {admitted = admitted}
end

function checks.reconnect()
  call(key("reconnect"), 15, 30, 60)
  write("reconnect", {event = "ready"})
  io.read()
  local failed, deadline = 0, socket.gettime() + 10
  while true do
    local ok, message = pcall(call, key("reconnect"), 15, 30, 60)
    if ok then
      return {failed = failed}
    end
    if socket.gettime() > deadline then
      error(message, 0)
    end
    failed = failed + 1
    socket.sleep(0.01)
  end
end

local function exists(path)
  local file = io.open(path)
  return file and file:close()
end

function checks.load()
  local succeeded, failed, gap, errors, last = 0, 0, 0, {}, socket.gettime()
  while not exists(options["until"]) do
    local ok, message = pcall(call, key("load"), 1000000, 1000000, 60)
    if ok then
      local now = socket.gettime()
      gap, last = math.max(gap, now - last), now
      succeeded = succeeded + 1
      if succeeded == 100 then
        gap = 0 -- without the time in which the client connects
        write("load", {event = "begun"})
      end
    else
      failed = failed + 1
      local text = tostring(message):sub(1, 200)
      errors[text] = (errors[text] or 0) + 1
    end
    socket.sleep(0.01)
  end
  local silent = socket.gettime() - last
  return {calls = succeeded + failed, gap_ms = 1000 * math.max(gap, silent), last_ms = 1000 * silent, errors = {errors}}
end

for name in options.check:gmatch("[^,]+") do
  if name == "version" then
    write(name, {ok = true, detail = redis._VERSION:match("[%d.]+")})
  else
    local ok, fields = pcall(function()
      client = client or open(options.password)
      return checks[name]() or {}
    end)
    if ok then
      fields.ok = true
      write(name, fields)
    else
      write(name, {ok = false, detail = tostring(fields)})
    end
  end
end
