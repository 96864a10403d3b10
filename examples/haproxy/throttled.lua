-- The action "throttled DOMAIN" sends a check request to the frontend "limiter", and stores the decision in variables:
-- txn.limiter (allow, deny, or the status of the limiter if it has not decided), and the values of the response headers.
--
-- The limiter gets the headers below only. A client cannot add others.

local forwarded = {
  ["ratelimit"] = "ratelimit",
  ["ratelimit-policy"] = "ratelimit_policy",
  ["x-ratelimit-limit"] = "x_ratelimit_limit",
  ["x-ratelimit-remaining"] = "x_ratelimit_remaining",
  ["x-ratelimit-reset"] = "x_ratelimit_reset",
  ["retry-after"] = "retry_after",
}

local function throttled(txn, domain)
  local response = core.httpclient():get({
    url = "http://limiter/check/haproxy/" .. domain,
    dst = "abns@throttled-limiter",
    headers = {
      ["x-forwarded-method"] = { txn.sf:method() },
      ["x-forwarded-uri"] = { txn.sf:pathq() },
      ["x-forwarded-host"] = { txn.sf:req_hdr("host") },
      ["x-forwarded-for"] = { txn.sf:src() },
    },
  })
  local decision = "none"
  if response and response.status == 200 then
    decision = "allow"
  elseif response and response.status == 429 then
    decision = "deny"
    txn:set_var("txn.problem", response.body)
  elseif response and response.status then
    decision = tostring(response.status)
  end
  txn:set_var("txn.limiter", decision)
  if decision ~= "allow" and decision ~= "deny" then
    return
  end
  for header, name in pairs(forwarded) do
    local values = response.headers[header]
    if values then
      txn:set_var("txn." .. name, values[0])
    end
  end
end

core.register_action("throttled", { "http-req" }, throttled, 1)
