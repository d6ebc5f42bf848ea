-- The requests that wrk sends; its arguments after "--" are: the case, how many licenses there are,
-- a seed, and what the case needs besides (see wrk.py). PAUSE_MS in the environment is the mean pause of a
-- connection between an answer and the next request.

local LICENSES = "/wp-json/lmfwc/v2/licenses"
local AGENTS = {
  "PhotoDesk/4.2.1 (Windows NT 10.0; Win64; x64)",
  "PhotoDesk/4.1.0 (Macintosh; Intel Mac OS X 14_5)",
  "python-requests/2.32.3",
  "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/126.0 Safari/537.36",
}
local LABELS = { "Office%20laptop", "Build%20server%202", "Anna%27s%20desktop", "Studio%20left" }

local pause = tonumber(os.getenv("PAUSE_MS") or 0)
local licenses, head = 0, {}
local requests = {}
local next_request

local function random_key()
  -- As installations.key_of has it.
  return ("BENCH-%08d-A1B2-C3D4"):format(math.random(0, licenses - 1))
end

local function get(path)
  return "GET " .. LICENSES .. path .. head[math.random(#head)]
end

function requests.constant()
  return function() return get("/constant/" .. random_key()) end
end

function requests.validate()
  return function() return get("/validate/" .. random_key()) end
end

function requests.activate()
  return function()
    return get("/activate/" .. random_key() .. "?label=" .. LABELS[math.random(#LABELS)])
  end
end

function requests.hot()
  local path = "/activate/" .. random_key() .. "?label="
  return function() return get(path .. LABELS[math.random(#LABELS)]) end
end

-- Given: a file with lines of "key token" of active places, which of them to use, and how many places
-- are given up before the first of them is taken back: so many that no request overtakes, on another
-- connection, the one that it follows.
function requests.reactivate(file, first, last, distance)
  local places = {}
  local number = 0
  for line in io.lines(file) do
    number = number + 1
    if number >= tonumber(first) and number <= tonumber(last) then
      local key, token = line:match("^(%S+) (%S+)$")
      places[#places + 1] = key .. "?token=" .. token
    end
  end
  local given_up, taken_back = 0, 0
  return function()
    if given_up - taken_back < tonumber(distance) then
      given_up = given_up + 1
      return get("/deactivate/" .. places[(given_up - 1) % #places + 1])
    end
    taken_back = taken_back + 1
    return get("/activate/" .. places[(taken_back - 1) % #places + 1])
  end
end

-- Given: the value of the Authorization header, and a word that no earlier key has in it.
function requests.create(authorization, word)
  local made = 0
  return function()
    made = made + 1
    local body = ('{"license_key":"NEW-%s-%06d-E5F6","order_id":%d,"product_id":%d,"user_id":%d,'
      .. '"valid_for":365,"times_activated_max":3}'):format(
      word, made, 70000 + made, math.random(40), math.random(50000))
    return "POST " .. LICENSES .. head[math.random(#head)]:sub(1, -3)
      .. "Authorization: " .. authorization .. "\r\nContent-Type: application/json\r\nContent-Length: "
      .. #body .. "\r\n\r\n" .. body
  end
end

local function post_v3(path, body)
  return "POST /v3" .. path .. head[math.random(#head)]:sub(1, -3)
    .. "Content-Type: application/json\r\nContent-Length: " .. #body .. "\r\n\r\n" .. body
end

-- Given: a file with lines of "key lease".
function requests.renew(file)
  local bodies = {}
  for line in io.lines(file) do
    local key, lease = line:match("^(%S+) (%S+)$")
    bodies[#bodies + 1] = ('{"license_key":"%s","lease_id":"%s"}'):format(key, lease)
  end
  return function()
    return post_v3("/leases/renew", bodies[math.random(#bodies)])
  end
end

-- Given: a file with lines of "key token" of active places, and how many of them to use.
function requests.v3_validate(file, last)
  local bodies = {}
  for line in io.lines(file) do
    local key, token = line:match("^(%S+) (%S+)$")
    bodies[#bodies + 1] = ('{"license_key":"%s","token":"%s"}'):format(key, token)
    if #bodies == tonumber(last) then break end
  end
  return function() return post_v3("/validate", bodies[math.random(#bodies)]) end
end

-- The same, but the answer is to be signed.
function requests.v3_validate_signed(file, last)
  local plain = requests.v3_validate(file, last)
  return function() return (plain():gsub("Accept: application/json", "Accept: application/jwt", 1)) end
end

-- Given: what the license keys begin with, and how many there are.
function requests.v3_validate_some(prefix, last)
  return function()
    return post_v3("/validate", ('{"license_key":"%s-%d"}'):format(prefix, math.random(tonumber(last))))
  end
end

-- Given: a word that no earlier fingerprint has in it.
function requests.v3_activate(word)
  local made = 0
  return function()
    made = made + 1
    return post_v3("/activate", ('{"license_key":"%s","fingerprint":"device-%s-%d","name":"Office laptop"}'):format(
      random_key(), word, made))
  end
end

function init(args)
  local case = args[1]
  licenses = tonumber(args[2])
  math.randomseed(tonumber(args[3]))
  for i, agent in ipairs(AGENTS) do
    head[i] = " HTTP/1.1\r\nHost: " .. wrk.headers["Host"] .. "\r\nUser-Agent: " .. agent
      .. "\r\nAccept: application/json\r\n\r\n"
  end
  next_request = requests[case](unpack(args, 4))
end

local is_asked_before_the_start = true

function request()
  -- wrk asks once to look at the request, and does not send it.
  if is_asked_before_the_start then
    is_asked_before_the_start = false
    return get("/validate/" .. random_key())
  end
  return next_request()
end

if pause > 0 then
  function delay() return math.random(0, 2 * pause) end
end

function done(summary, latency)
  local e = summary.errors
  print(("figures %d %d %d %d %d"):format(
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    e.status + e.connect + e.read + e.write + e.timeout))
end
