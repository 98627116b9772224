-- Reserves departures in buckets that hold jointly: bucket.go, call.go and reply.go say what goes in and
-- comes out. Each departure is at the first whole microsecond at which every limit of every bucket lets it
-- leave, and is charged to all of them.
--
-- The script is this file and lease_state, lease_limits, lease_buckets and lease_depart.lua after it.
--
-- KEYS: for each bucket its state (STRING), the log of its sliding windows (ZSET), its instances (ZSET).
--
-- Times are whole microseconds since 1970, which a double holds exactly up to the year 2255; fractions are
-- kept as whole numbers of 1/Q us. Nothing is ever written by tostring or "..", which keep 14 digits.

local floor, max, min, fmt = math.floor, math.max, math.min, string.format

local FAR = 4503599627370496 -- 2^52 us: the end of all times, in 2112
local REMEMBER = 60000000    -- us for which a state is kept after it is as good as new
local LEARNT = 3600000000    -- us for which a learnt rate is kept
local LONGEST_PAUSE = 2678400000000 -- 31 days
local ROUNDS = 100           -- limits are asked in turn, until all let go: at most so often

local now = tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end

-- heartbeat notes that an instance is alive, and returns how many are.
local function heartbeat(members, instance, lease)
  local dead = redis.pcall('ZREMRANGEBYSCORE', members, '-inf', fmt('%.0f', now))
  if type(dead) == 'table' then
    redis.call('DEL', members) -- of another type: not ours
  else
    -- Where the clock went back, nobody has a longer lease than this.
    redis.call('ZREMRANGEBYSCORE', members, fmt('(%.0f', now + 2 * lease), '+inf')
  end
  redis.call('ZADD', members, fmt('%.0f', now + lease), instance)
  redis.call('PEXPIRE', members, fmt('%.0f', math.ceil(lease / 1000) + 10000))
  return redis.call('ZCARD', members)
end

-- The most frequent case by far, a single rate of which one run is wanted, in a form that takes no longer for
-- more departures. It is the general case below, which it leaves everything to that it doesn't know.
if ARGV[9] == '1' and ARGV[17] == '1' and ARGV[16] == '0' and ARGV[15] == '0' and ARGV[13] == '0' and ARGV[7] == '0' then
  local s = redis.pcall('GET', KEYS[1])
  local clock, off, version, live, last, a, b, low, since, stored
  if type(s) == 'string' then
    clock, off, version, live, last, a, b, low, since, stored = string.match(s,
      '^1 (%d+) (%d+) (%d+) (%d+) 0 (%d+) 0 (%d+) (%d+) (%d+) (%d+)|(1 .+)$')
  end
  if stored == ARGV[11] then
    local I, R, Q, burst, ordinary = string.match(stored, '^1 (%d+) (%d+) (%d+) (%d+) (%d+)$')
    off, a, b = tonumber(off), tonumber(a), tonumber(b)
    if I and max(1, tonumber(ARGV[18])) * tonumber(ARGV[20]) * tonumber(R) <= FAR / 2 and now + off >= tonumber(clock) and off <= FAR / 4 and a <= FAR and b < tonumber(Q) then
      I, R, Q = tonumber(I), tonumber(R), tonumber(Q)
      burst, live, low, since = tonumber(burst), max(1, tonumber(live)), tonumber(low), tonumber(since) - off
      a, last = a - off, tonumber(last) - off
      local cost = tonumber(ARGV[20])
      local horizon, weight, n = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[18])
      if ARGV[4] ~= '' then live = heartbeat(KEYS[3], ARGV[4], tonumber(ARGV[5])) end
      if a < now then a, b = now, 0 end
      if cost > 0 and n > 0 then
        -- The i-th leaves when the bucket would, less what is free: at e + i*step, but not before now.
        local ea, eb = a, b
        local spare = (ARGV[19] == '1' and burst or tonumber(ordinary)) - cost
        if spare > 0 then
          local x = b - spare * R
          local carry = floor(x / Q)
          ea, eb = a - spare * I + carry, x - carry * Q
        end
        local function due(i)
          local x = eb + i * cost * R
          local carry = floor(x / Q)
          local t = ea + i * cost * I + carry
          if x > carry * Q then t = t + 1 end
          return t
        end
        local step = cost * (I + R / Q)
        local function by(t) -- how many leave by then
          if due(0) > t then return 0 end
          local i = min(floor((t - ea - eb / Q) / step), floor(FAR / 2 / (cost * (R + 1))))
          if due(i) > t then i = i - 1 elseif due(i + 1) <= t then i = i + 1 end
          return i + 1
        end
        local free = by(now)
        local g = n
        if free > 0 and (n > free or live > weight) then
          local most = max(1, math.ceil(weight * free / live))
          if most < free then g = min(n, most) end
        end
        if g > free then
          g = max(1, min(g, free + max(1, floor(weight * horizon / (step * live))), by(now + horizon)))
        end
        local final = max(now, due(g - 1))
        last = max(last, final)
        if burst > 1 then
          -- By so much the bucket is ahead of the clock: least at the first or the last, or a little less.
          for i = 0, min(g - 1, 2) do
            if i == 2 then i = g - 1 end
            local t = max(now, due(i))
            local ahead = a + floor((b + i * cost * R) / Q) + i * cost * I - t
            if ahead <= 0 then
              low, since = FAR, t
            else
              low = min(low, max(0, ahead - 1))
            end
          end
        end
        local x = b + g * cost * R
        local carry = floor(x / Q)
        a, b = min(FAR, a + g * cost * I + carry), x - carry * Q
        local ttl = a - now + REMEMBER
        redis.call('SET', KEYS[1], fmt('1 %.0f %.0f %s %.0f 0 %.0f 0 %.0f %.0f %.0f %.0f|', now + off, off, version, live,
          last + off, a + off, b, low, max(0, since + off)) .. stored, 'PX', fmt('%.0f', math.ceil(ttl / 1000)))
        return { now, max(now, due(g)), min(ttl, FAR / 2) - REMEMBER / 2, 1, live, 0, off, 0, 0,
          0, g, now, ea, eb, cost * I, cost * R, Q }
      end
    end
  end
end
