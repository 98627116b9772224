-- Reserves departures in buckets that hold jointly: bucket.go, call.go and reply.go say what goes in and
-- comes out. Each departure is at the first whole microsecond at which every limit of every bucket lets it
-- leave, and is charged to all of them.
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

-- The general case.

local next_arg = 1
local function arg()
  next_arg = next_arg + 1
  return ARGV[next_arg]
end
local function number()
  return tonumber(arg())
end

local horizon, weight = number(), number()
local instance, lease = arg(), number()
local known, recovering, refused = arg(), number() == 1, number() == 1
local nbuckets = number()

-- Exact arithmetic.

-- muldiv is the whole part of a*b/c, and FAR where that is more, and what remains.
local function muldiv(a, b, c)
  if a <= 0 or b <= 0 then return 0, 0 end
  if a * b < 9007199254740992 then return floor(a * b / c), a * b % c end
  local rest, whole = b % c, floor(b / c)
  local q, r, bit = 0, 0, 1
  while bit * 2 <= a do bit = bit * 2 end
  while bit >= 1 do
    q, r = 2 * q, 2 * r
    if a >= bit then a, q, r = a - bit, q + whole, r + rest end
    while r >= c do q, r = q + 1, r - c end
    if q > FAR then return FAR, 0 end
    bit = bit / 2
  end
  return q, r
end

-- A rate's interval is I + R/Q us. plus is a + b/Q and k intervals; k may be negative.
local function plus(l, a, b, k)
  local x, carry = k * l.R, 0
  if x > FAR or x < -FAR then
    carry, x = muldiv(math.abs(k), l.R, l.Q)
    if k < 0 then carry, x = -carry, -x end
  end
  x = b + x
  local more = floor(x / l.Q)
  return max(-FAR, min(FAR, a + k * l.I + carry + more)), x - more * l.Q
end

local function ceil(a, b)
  if b > 0 then return a + 1 end
  return a
end

-- Limits and their states. A state is read and written as a list of numbers, those that are times by the
-- bucket's clock, which is Redis' and never goes back: see load.

local RATE, ADAPTIVE, SLIDING, COUNTER, FIXED = 1, 2, 3, 4, 5
local PER_US = 1048576 -- an adaptive interval is in so many parts of a microsecond

-- spec parses the limits of a bucket; nil if they make no sense.
local function spec(s)
  local x, n = {}, 0
  for w in string.gmatch(s, '%S+') do
    n = n + 1
    x[n] = tonumber(w)
    if not x[n] then return nil end
  end
  local limits, i = {}, 1
  while i <= n do
    local k = x[i]
    local l = { kind = k }
    if k == RATE then
      l.I, l.R, l.Q, l.burst, l.ordinary = x[i + 1], x[i + 2], x[i + 3], x[i + 4], x[i + 5]
      i = i + 6
    elseif k == ADAPTIVE then
      l.min, l.max, l.Q, l.burst, l.ordinary = x[i + 1], x[i + 2], PER_US, 1, 1
      i = i + 3
    elseif k == SLIDING then
      l.n, l.d, l.guard, l.kept = x[i + 1], x[i + 2], x[i + 3], x[i + 4]
      i = i + 5
    elseif k == COUNTER then
      l.n, l.d, l.guard, l.kept, l.anchor = x[i + 1], x[i + 2], x[i + 3], x[i + 4], x[i + 5]
      i = i + 6
    elseif k == FIXED then
      l.n, l.d, l.guard, l.kept = x[i + 1], x[i + 2], x[i + 3], x[i + 4]
      l.width, l.rounding, l.phase, l.anchor = x[i + 5], x[i + 6], x[i + 7], x[i + 8]
      i = i + 9
    else
      return nil
    end
    limits[#limits + 1] = l
  end
  if i ~= n + 1 then return nil end
  return limits
end

-- pace sets the interval of an adaptive rate from its departures in 1e6 s.
local function pace(l)
  local p = math.ceil(1099511627776000000 / l.f)
  l.I, l.R = floor(p / PER_US), p % PER_US
end

-- The window log of a sliding window is in a ZSET that all of a bucket's share: its member is the window's
-- number and the time, its score the running total of the units, and the window's number times BAND.
local BAND = 35184372088832 -- 2^45

local function member(l, t)
  return fmt('%d:%017.0f', l.index, t)
end

local function score(l, total)
  return fmt('%.0f', l.index * BAND + total)
end

-- moment is when an entry was, and one that isn't ours was long ago.
local function moment(l, e)
  local t = string.match(e, '^%d+:(%d+)$')
  return (t and tonumber(t) or 0) - l.off
end

-- entry is the first one whose total is at least that: its time and its total. It may not be written yet.
local function entry(l, total)
  if total > l.written then
    if l.newest and total <= l.total then return l.newest, l.total end
    return nil
  end
  local e = redis.call('ZRANGEBYSCORE', l.log, score(l, total), score(l, l.written), 'WITHSCORES', 'LIMIT', 0, 1)
  if not e[1] then return nil end
  return moment(l, e[1]), tonumber(e[2]) - l.index * BAND
end

local function flush(l)
  if l.total > l.written then
    redis.call('ZADD', l.log, score(l, l.total), member(l, l.newest + l.off))
    l.written = l.total
    l.touched = true
  end
end

-- expire forgets what has left the window at now, and counts what is in it.
local function expire(l)
  for _ = 1, 64 do
    local e = redis.pcall('ZRANGEBYSCORE', l.log, score(l, 0), score(l, l.total), 'WITHSCORES', 'LIMIT', 0, 256)
    if e.err then
      redis.call('DEL', l.log) -- of another type: not ours
      e = {}
    end
    local gone
    for i = 1, #e, 2 do
      if moment(l, e[i]) > now - l.span then break end
      gone = floor(tonumber(e[i + 1])) - l.index * BAND
    end
    if gone then
      redis.call('ZREMRANGEBYSCORE', l.log, score(l, 0), score(l, gone))
      l.gone = gone
    end
    if not gone or #e < 512 then
      if #e == 0 and l.total > l.gone then
        -- The log is lost, the state isn't. What left may have left just now.
        l.written, l.newest = l.gone, now
        flush(l)
      end
      return
    end
  end
end

local function clear(l)
  redis.call('ZREMRANGEBYSCORE', l.log, score(l, 0), fmt('%.0f', (l.index + 1) * BAND - 1))
end

-- fresh is the state of a limit from which nothing has left.
local function fresh(l)
  if l.kind == RATE or l.kind == ADAPTIVE then
    l.a, l.b, l.low, l.since = 0, 0, FAR, 0
    if l.kind == ADAPTIVE then
      l.step = max(1, floor(l.max / 20))
      l.f, l.rose, l.cut = max(l.min, l.step), now, 0
      pace(l)
    end
  elseif l.kind == SLIDING then
    l.gone, l.total, l.written, l.newest = 0, 0, 0, nil
    clear(l)
  elseif l.kind == COUNTER then
    l.start, l.prev, l.curr, l.last = now - (now - l.anchor) % l.d, 0, 0, 0
  else
    l.told, l.from, l.since, l.k, l.at, l.opened, l.units = nil, nil, 0, 0, {}, {}, {}
  end
end

-- read takes a limit's state from a list of numbers, from the i-th on, and returns which comes next; nil if
-- they can't be right.
local function read(l, x, i, off)
  if l.kind == RATE or l.kind == ADAPTIVE then
    local a, b, low, since = x[i], x[i + 1], x[i + 2], x[i + 3]
    if not since or b >= l.Q or a > FAR + off then return nil end
    l.a, l.b, l.low, l.since = a - off, b, low, since - off
    i = i + 4
    if l.kind == ADAPTIVE then
      local f, rose, cut, step = x[i], x[i + 1], x[i + 2], x[i + 3]
      if not step then return nil end
      l.f, l.rose, l.cut, l.step = max(l.min, min(l.max, f)), min(now, rose - off), min(now, cut - off), step
      pace(l)
      i = i + 4
    end
    return i
  elseif l.kind == SLIDING then
    local gone, total, newest = x[i], x[i + 1], x[i + 2]
    if not newest or gone > total or total >= BAND then return nil end
    l.gone, l.total, l.written, l.newest = gone, total, total, newest - off
    if newest == 0 then l.newest = nil end
    return i + 3
  elseif l.kind == COUNTER then
    local start, prev, curr, last = x[i], x[i + 1], x[i + 2], x[i + 3]
    if not last then return nil end
    l.start, l.prev, l.curr, l.last = start - off, prev, curr, last - off
    -- Where Redis' clock was seen to go back, its windows aren't those of the state's any more.
    local odd = (l.start - l.anchor) % l.d
    if odd > 0 then l.start = l.start + l.d - odd end
    return i + 4
  end
  local told, from, since, k = x[i], x[i + 1], x[i + 2], x[i + 3]
  if not k or k > 100000 then return nil end
  i = i + 4
  l.told, l.from, l.since = told - off, from - off, since - off
  if told == 0 then l.told = nil end
  l.at, l.opened, l.units = {}, {}, {}
  for j = 1, k do
    local at, took, units = x[i], x[i + 1], x[i + 2]
    if not units then return nil end
    at = at - off
    i = i + 3
    if j > 1 and at < l.at[j - 1] then return nil end
    l.at[j], l.opened[j], l.units[j] = at, at - took, units
  end
  l.k = k
  return i
end

-- write is the inverse of read, and returns when the limit's state is as good as new.
local function write(l, out, off)
  local n = #out
  if l.kind == RATE or l.kind == ADAPTIVE then
    out[n + 1] = fmt('%.0f %.0f %.0f %.0f', max(0, l.a + off), l.b, max(0, l.low), max(0, l.since + off))
    if l.kind == ADAPTIVE then
      out[n + 2] = fmt('%.0f %.0f %.0f %.0f', l.f, max(0, l.rose + off), max(0, l.cut + off), l.step)
      return max(l.a, now) + LEARNT
    end
    return l.a
  elseif l.kind == SLIDING then
    flush(l)
    out[n + 1] = fmt('%.0f %.0f %.0f', l.gone, l.total, l.newest and l.newest + off or 0)
    return (l.newest or 0) + l.span
  elseif l.kind == COUNTER then
    out[n + 1] = fmt('%.0f %.0f %.0f %.0f', max(0, l.start + off), l.prev, l.curr, max(0, l.last + off))
    return l.start + 2 * l.d
  end
  while l.charged and l.k > 0 and l.at[1] <= now - l.span do
    l.since, l.k = max(l.since, l.at[1]), l.k - 1
    table.remove(l.at, 1)
    table.remove(l.opened, 1)
    table.remove(l.units, 1)
  end
  out[n + 1] = fmt('%.0f %.0f %.0f %.0f', l.told and l.told + off or 0, l.told and max(0, l.from + off) or 0,
    max(0, l.since + off), l.k)
  local newest = l.since
  for j = 1, l.k do
    out[#out + 1] = fmt('%.0f %.0f %.0f', l.at[j] + off, l.at[j] - l.opened[j], l.units[j])
    newest = l.at[j]
  end
  if l.told then return max(l.told, newest) + 2 * l.d end
  return newest + max(l.span, l.longest or 0)
end

-- Rates.

-- due is the first whole microsecond at which a rate lets a cost leave.
local function rate_due(l, cost, high)
  local spare = (high and l.burst or l.ordinary) - cost
  if spare <= 0 then return ceil(l.a, l.b) end
  return ceil(plus(l, l.a, l.b, -spare))
end

local function rate_charge(l, due, cost)
  if ceil(l.a, l.b) < due then l.a, l.b = due, 0 end
  if l.burst > 1 then
    -- By so much the bucket is ahead of the clock; see low in rate_back.
    local ahead = l.a - due
    if ahead <= 0 then
      l.low, l.since = FAR, due
    else
      l.low = min(l.low, ahead)
    end
  end
  l.a, l.b = plus(l, l.a, l.b, cost)
end

-- rate_back gives back units that were charged at a moment, where the latest charge was at last. After it the
-- bucket was ahead of the clock by all of them, and only the time since then has changed that; a rate with
-- burst was ahead by low at least at each charge later than since, so that much was in use without them.
local function rate_back(l, at, units, last)
  if at > last then return false end
  local a, b = plus(l, l.a, l.b, -units)
  if at == last then
    l.a, l.b = a, b
    return true
  end
  if l.I > 0 and ceil(a, b) == at then
    -- Those that were charged after it were all given back before.
    l.a, l.b = a, b
    return true
  end
  local least = at >= l.since and l.low < FAR and l.low or 0
  local lost_a, lost_b = plus(l, last - at, 0, -units) -- what was lost since then, if above 0
  if l.burst > 1 then
    local back, part = plus(l, 0, 0, units)
    if back + ceil(0, part) <= least then
      l.a, l.b, l.low = a, b, l.low - ceil(back, part)
      return false
    end
    if lost_a >= 0 or least > 0 and -ceil(lost_a, lost_b) < least then
      l.a, l.low = l.a - least, l.low - least
      return false
    end
  end
  if lost_a < 0 then
    -- units - (last - at)
    l.a, l.b = plus(l, l.a + last - at, l.b, -units)
    if l.burst > 1 then l.low = max(0, l.low + ceil(lost_a, lost_b)) end
  end
  return false
end

-- Windows.

-- lent is how long before the end of a window its last free units aren't kept for high priority any more.
local function lent(l, room, length)
  if room <= 0 then return l.guard end
  return max(l.guard, (muldiv(room, length, l.kept)))
end

local function sliding_due(l, t, cost, high)
  local begun, must = t, l.total + cost - l.n
  if must > l.gone then
    t = max(t, (entry(l, must) or now) + l.span)
  end
  if high or l.kept == 0 then return t end
  -- The oldest that counts then: by rank, since what is remembered is in order of time, too.
  local low, count = 0, redis.call('ZCOUNT', l.log, score(l, 0), score(l, l.written))
  local before = redis.call('ZCOUNT', l.log, '-inf', '(' .. score(l, 0))
  local high_ = count
  local found_at, before_total = nil, l.gone
  while low < high_ do
    local mid = floor((low + high_) / 2)
    local e = redis.call('ZRANGE', l.log, before + mid, before + mid, 'WITHSCORES')
    local at, total = moment(l, e[1]), tonumber(e[2]) - l.index * BAND
    if at > t - l.span then
      high_, found_at = mid, at
    else
      low, before_total = mid + 1, total
    end
  end
  if not found_at and l.total > l.written and l.newest > t - l.span then
    found_at = l.newest
  end
  if not found_at then return t end
  -- What was given back leaves entries of no units, which don't count.
  local at, total = entry(l, before_total + 1)
  if not at then return t end
  local room = l.n - cost - (l.total - before_total)
  return max(t, at + l.span - lent(l, room, l.span))
end

local function sliding_charge(l, t, cost)
  if not l.newest or t > l.newest then
    flush(l)
    l.newest = t
  end
  l.total = l.total + cost
end

local function counter_at(l, t)
  local start = t - (t - l.anchor) % l.d
  if start <= l.start then return l.start, l.prev, l.curr end
  if start == l.start + l.d then return start, l.curr, 0 end
  return start, 0, 0
end

-- shrunk is how long before the window's end units, which count less and less, have shrunk to room.
local function shrunk(l, room, units)
  if units == 0 then return FAR end
  return (muldiv(max(0, room), l.d, units))
end

local function muldiv_up(a, b, c)
  return -floor(-a * b / c) -- b is at most 50001 us, and a below 2^32
end

local function counter_due(l, t, cost, high)
  local start, prev, curr = counter_at(l, t)
  local stop = start + l.d
  if t >= stop - l.guard then start, stop, prev, curr = stop, stop + l.d, curr, 0 end
  for _ = 1, 4 do
    t = max(t, start)
    if prev + curr == 0 then return t end
    local heavy = muldiv_up(prev, l.guard + 1, l.d)
    if not high and l.kept > 0 then
      heavy = max(heavy + 1, muldiv_up(prev + l.kept, l.guard + 1, l.d))
    end
    if curr + cost <= l.n - heavy then
      local room = l.n - curr - cost
      if high or l.kept == 0 then return max(t, stop - shrunk(l, room, prev)) end
      return max(t, stop - min(shrunk(l, room, prev + l.kept), shrunk(l, room - 1, prev)))
    end
    start, stop, prev, curr = stop, stop + l.d, curr, 0
  end
  return FAR
end

local function counter_charge(l, t, cost)
  l.start, l.prev, l.curr = counter_at(l, t)
  l.curr = l.curr + cost
  l.last = max(l.last, t)
end

local function newest(l)
  if l.k == 0 then return l.since end
  return l.at[l.k]
end

-- heard reports whether the end of a window that the server told still says when windows begin at t.
local function heard(l, t)
  return l.told and t < max(l.told, newest(l)) + 2 * l.d
end

local function phased(l, t)
  return l.phase ~= 0 or heard(l, t)
end

-- window is when the window begins and ends in which t is.
local function window(l, t)
  if l.phase == 2 then
    local b = l.bounds
    local n = #b
    if n > 0 and t < b[1] then return b[1] - l.d, b[1] end
    for i = 1, n - 1 do
      if t < b[i + 1] then return b[i], b[i + 1] end
    end
    -- Who asked doesn't know: windows of the longest length.
    local anchor = b[n] or 0
    local start = t - (t - anchor) % l.d
    return start, start + l.d
  end
  local anchor = l.anchor
  if heard(l, t) then
    if t < l.told then return min(l.from, t), l.told end
    anchor = l.told
  end
  local start = t - (t - anchor) % l.d
  return start, start + l.d
end

local function fixed_due(l, t, cost, high)
  if not phased(l, t) then
    local used, first, entries = 0, l.k + 1, l.k
    for j = entries, 1, -1 do
      if l.at[j] <= t - l.span then break end
      used, first = used + l.units[j], j
    end
    if used == 0 then return t end
    local stop, must = t + l.span, cost - (l.n - used)
    while must > 0 and first <= entries do
      must, used = must - l.units[first], used - l.units[first]
      t = l.at[first] + l.span
      first = first + 1
    end
    while first <= entries and l.units[first] == 0 do first = first + 1 end
    if high or l.kept == 0 then return t end
    if first > entries then return t end
    stop = l.at[first] + l.span
    return max(t, stop - lent(l, l.n - cost - used, l.span))
  end
  local start, stop = window(l, t)
  if t >= stop - l.guard then
    start = stop
    if l.phase == 2 then start, stop = window(l, stop) else stop = stop + l.d end
  end
  for _ = 1, l.k + 2 do
    local used = 0
    for j = l.k, 1, -1 do
      if l.at[j] < start then break end
      if l.at[j] < stop then used = used + l.units[j] end
    end
    if cost <= l.n - used then
      t = max(t, start + l.guard)
      if high or l.kept == 0 or used == 0 then return t end
      return max(t, stop - l.guard - lent(l, l.n - used - cost, stop - start))
    end
    start = stop
    if l.phase == 2 then start, stop = window(l, stop) else stop = stop + l.d end
  end
  return FAR
end

-- fixed_charge notes units at t: with those before, if these came less than width ago and in the same window.
local function fixed_charge(l, t, cost)
  l.charged = true
  if l.told and not heard(l, t) then l.told = nil end -- for good, and not until something leaves again
  local boundary = 0
  if phased(l, t) then boundary = window(l, t) end
  local j = l.k
  while j > 0 and l.at[j] > t do j = j - 1 end
  if j > 0 and (l.at[j] == t or t < l.opened[j] + l.width and l.opened[j] >= boundary) then
    l.at[j], l.units[j] = t, l.units[j] + cost
    return
  end
  table.insert(l.at, j + 1, t)
  table.insert(l.opened, j + 1, t)
  table.insert(l.units, j + 1, cost)
  l.k = l.k + 1
end

-- settle changes what was charged to a window at a moment by so many units, not to less than none.
local function settle(l, at, more)
  if l.kind == COUNTER then
    local start = at - (at - l.anchor) % l.d
    if start == l.start then
      l.curr = max(0, l.curr + more)
    elseif start == l.start - l.d then
      l.prev = max(0, l.prev + more)
    end
  elseif l.kind == FIXED then
    if at <= l.since then return end
    for j = 1, l.k do
      if l.at[j] >= at then
        l.units[j] = max(0, l.units[j] + more)
        return
      end
    end
  else
    if not l.newest or at > l.newest or at <= now - l.span then return end
    flush(l)
    -- From its entry on all totals change; an entry is found by its time.
    local old = redis.call('ZSCORE', l.log, member(l, at + l.off))
    if not old then
      if more > 0 then l.total = l.total + more end -- with the newest, where it counts longer
      return
    end
    local rest = redis.call('ZRANGEBYSCORE', l.log, old, score(l, l.total), 'WITHSCORES', 'LIMIT', 0, 1001)
    if #rest > 2000 then
      if more > 0 then l.total = l.total + more end
      return
    end
    local mine, first = member(l, at + l.off)
    for j = 1, #rest, 2 do
      if rest[j] == mine then first = j end
    end
    if not first then return end
    if more < 0 then
      local before = redis.call('ZREVRANGEBYSCORE', l.log, fmt('(%s', old), score(l, 0), 'WITHSCORES', 'LIMIT', 0, 1)
      local units = tonumber(old) - l.index * BAND - (before[2] and tonumber(before[2]) - l.index * BAND or l.gone)
      -- Another of the same score before it has those units.
      if first > 1 then units = 0 end
      more = max(more, -units)
    end
    for j = first, #rest, 2 do
      redis.call('ZADD', l.log, fmt('%.0f', tonumber(rest[j + 1]) + more), rest[j])
    end
    l.total, l.written = l.total + more, l.total + more
  end
end

-- used is what a window counts at now.
local function used(l)
  if l.kind == SLIDING then return l.total - l.gone end
  if l.kind == COUNTER then
    local start, prev, curr = counter_at(l, now)
    return curr + min(prev, muldiv(prev, max(0, min(l.d, start + l.d - now)), l.d) + 1)
  end
  local from, sum = now - l.span, 0
  if phased(l, now) then from = window(l, now) - 1 end
  for j = 1, l.k do
    if l.at[j] > from then sum = sum + l.units[j] end
  end
  return sum
end

-- free is for how many departures of that cost there is room at now, about.
local function free(l, cost, high)
  local kept = 0
  if not high and l.kept then kept = l.kept end
  if l.kind == RATE or l.kind == ADAPTIVE then
    local a, b = l.a, l.b
    if ceil(a, b) < now then a, b = now, 0 end
    local spare = (high and l.burst or l.ordinary) - cost
    if spare > 0 then a, b = plus(l, a, b, -spare) end
    if ceil(a, b) > now then return 0 end
    return 1 + floor((now - a - b / l.Q) / (cost * (l.I + l.R / l.Q)))
  elseif l.kind == COUNTER then
    local start, prev, curr = counter_at(l, now)
    return floor((l.n - curr - math.ceil((prev + kept) * max(0, min(1, (start + l.d - now) / l.d)))) / cost)
  elseif l.kind == FIXED and phased(l, now) then
    local start, stop = window(l, now)
    kept = floor(kept * (stop - now) / (stop - start))
  end
  return floor((l.n - used(l) - kept) / cost)
end

-- charged is a window that counts so many units from now on.
local function charged(l, units)
  if units <= 0 then return end
  if l.kind == SLIDING then
    sliding_charge(l, now, units)
  elseif l.kind == COUNTER then
    counter_charge(l, now, units)
  else
    fixed_charge(l, now, units)
  end
end

-- Buckets.

-- drain has the first unit leave a rate at t, and the others follow.
local function drain(l, t)
  local a, b = plus(l, t, 0, l.burst - 1)
  if a > l.a or a == l.a and b > l.b then l.a, l.b = a, b end
end

-- adopt gives the limits of a bucket what those before them remember. Rates are matched by their order, and
-- windows by kind and order: of a rate the used part of the burst stays used, a window of the same length
-- stays as it is, and any other counts what the old one does.
local function adopt(b, old)
  local seen, counted = {}, 0
  for _, l in ipairs(old) do
    if l.n then counted = max(counted, used(l)) end
  end
  if counted == 0 and old[1] and not old[1].n then
    -- By the level of the first rate no more have left lately.
    local o = old[1]
    counted = max(0, math.ceil((o.a - b.last + o.b / o.Q) / (o.I + o.R / o.Q) - 1e-9))
  end
  for _, l in ipairs(b.limits) do
    seen[l.kind] = (seen[l.kind] or 0) + 1
    local k, same = 0, nil
    for _, o in ipairs(old) do
      if o.kind == l.kind then
        k = k + 1
        if k == seen[l.kind] then same = o end
      end
    end
    if l.kind == RATE then
      fresh(l)
      if same then
        local t, before = l.I + l.R / l.Q, same.I + same.R / same.Q
        local ahead = max(0, same.a + same.b / same.Q - now)
        if ahead > 0 then l.a = now + math.ceil(ahead * (t / before)) end
        -- Under a slower rate what left at the old one would have used a larger burst.
        if t > before and b.last > 0 then
          local more = math.ceil(max(0, l.burst - same.burst) * t) - (now - b.last)
          if more > 0 then l.a = max(l.a, now) + more end
        end
        l.a = min(FAR, l.a)
      else
        drain(l, now)
      end
    elseif l.kind == ADAPTIVE then
      fresh(l)
      if same then
        l.f, l.rose, l.cut, l.step = max(l.min, min(l.max, same.f)), same.rose, same.cut, same.step
        l.a, l.b = same.a, same.b
        pace(l)
      end
    elseif same and same.d == l.d then
      if l.kind == SLIDING then
        l.gone, l.total, l.written, l.newest = same.gone, same.total, same.written, same.newest
      elseif l.kind == COUNTER then
        l.start, l.prev, l.curr, l.last = same.start, same.prev, same.curr, same.last
      else
        l.told, l.from, l.since, l.k = same.told, same.from, same.since, same.k
        l.at, l.opened, l.units = same.at, same.opened, same.units
        if l.phase == 2 or same.phase == 2 then l.told = nil end
      end
    else
      l.fresh = true
    end
  end
  -- Logs are matched by their order, so one that stays has the number that it had.
  for _, o in ipairs(old) do
    if o.kind == SLIDING and o.index >= (seen[SLIDING] or 0) then clear(o) end
  end
  for _, l in ipairs(b.limits) do
    if l.fresh then
      fresh(l)
      charged(l, counted)
    end
  end
end

-- prepare says where the logs of a bucket's limits are, and what time it is there.
local function prepare(b, limits)
  local logs, calendars = 0, 0
  for _, l in ipairs(limits) do
    if l.d then l.span = l.d + l.guard end
    if l.kind == SLIDING then
      l.index, l.log, l.off = logs, b.log, b.off
      logs = logs + 1
    elseif l.kind == FIXED and l.phase == 2 then
      calendars = calendars + 1
      l.bounds = b.bounds[calendars] or {}
      local first, last = l.bounds[1], l.bounds[#l.bounds]
      l.longest = 2 * l.d
      -- What counts in a window is what left since it began.
      if first and last then l.span = max(l.span, now - first) end
    elseif l.kind == FIXED then
      l.longest = l.span
    end
  end
end

local function bounds(s)
  local all, one = {}, nil
  for w in string.gmatch(s, '%S+') do
    if w == '/' then
      one = {}
      all[#all + 1] = one
    elseif one then
      one[#one + 1] = tonumber(w)
    end
  end
  return all
end

-- parse reads a bucket's state; nil if there is none that makes sense.
local function parse(b, s)
  if type(s) ~= 'string' then return nil end
  local bar = string.find(s, '|', 1, true)
  if not bar then return nil end
  local x, n = {}, 0
  for w in string.gmatch(string.sub(s, 1, bar - 1), '%S+') do
    n = n + 1
    x[n] = tonumber(w)
    if not (x[n] and x[n] >= 0 and x[n] <= 2 * FAR and x[n] == floor(x[n])) then return nil end
  end
  if x[1] ~= 1 or n < 8 then return nil end
  -- The bucket's clock is Redis', and on top of that by how much this one was seen to have gone back.
  local clock, off = x[2], x[3]
  if off > FAR / 4 or clock > FAR then return nil end
  if now + off < clock then off = clock - now end
  if off > FAR / 4 then return nil end
  b.off, b.stored_version, b.live = off, x[4], x[5]
  b.pause, b.last = x[6], x[7] - off
  b.pause = min(b.pause - off, now + LONGEST_PAUSE)
  b.stored_spec = string.sub(s, bar + 1)
  b.paused = b.stored_spec == '' -- and nothing else is known
  if b.paused then return nil end
  local limits = spec(b.stored_spec)
  if not limits then return nil end
  prepare(b, limits)
  local i = 9
  for _, l in ipairs(limits) do
    i = read(l, x, i, off)
    if not i then return nil end
  end
  if i ~= n + 1 then return nil end
  for _, l in ipairs(limits) do
    if l.kind == SLIDING then expire(l) end
  end
  return limits
end

local function load(i)
  local b = { state = KEYS[3 * i - 2], log = KEYS[3 * i - 1], members = KEYS[3 * i] }
  b.version, b.spec = number(), arg()
  b.bounds = bounds(arg())
  b.owed = number()
  local last_used = arg()
  b.off, b.live, b.pause, b.last = 0, 1, 0, 0
  local s = redis.pcall('GET', b.state)
  if type(s) == 'table' then
    redis.call('DEL', b.state) -- of another type: not ours
    s = false
  end
  local seen = string.sub(known, i, i) == '1' -- so if there is none, it was lost
  local limits = parse(b, s)
  if not limits then
    b.last = 0
    if not b.paused then b.off, b.live, b.pause = 0, 1, 0 end
    b.limits = assert(spec(b.spec), 'limits make no sense')
    local t = redis.pcall('ZCARD', b.log)
    if type(t) == 'table' then redis.call('DEL', b.log) end
    prepare(b, b.limits)
    local counted, k = {}, 0
    for w in string.gmatch(last_used, '%S+') do counted[#counted + 1] = tonumber(w) end
    for _, l in ipairs(b.limits) do
      fresh(l)
      if l.n then
        k = k + 1
        if seen then charged(l, counted[k] or 0) end
      elseif seen then
        drain(l, now + horizon)
      end
    end
  elseif b.spec == b.stored_spec or b.version < b.stored_version then
    -- Of settings the newest count, whoever asks.
    b.version, b.spec = max(b.version, b.stored_version), b.stored_spec
    b.limits = limits
  else
    b.limits = assert(spec(b.spec), 'limits make no sense')
    prepare(b, b.limits)
    adopt(b, limits)
  end
  b.live = max(1, b.live)
  if instance ~= '' then
    b.live = heartbeat(b.members, instance, lease)
  end
  -- A pause leaves nothing saved up, even if nobody asked while it lasted.
  for _, l in ipairs(b.limits) do
    if l.burst then
      if recovering then drain(l, now + horizon) end
      if b.pause > 0 and b.pause <= now + horizon then drain(l, b.pause) end
      l.busy = l.a >= now - max(horizon, 2 * l.I)
      if l.kind == ADAPTIVE and refused and now - l.cut >= 1000000 then
        l.f = max(l.min, floor(l.f * 7 / 10))
        l.step, l.cut, l.rose = max(1, floor(l.f / 20)), now, now
        pace(l)
      end
    end
  end
  if b.pause <= now then b.pause = 0 end
  return b
end

local buckets = {}
for i = 1, nbuckets do buckets[i] = load(i) end

-- What is given back and owed.

for i = 1, nbuckets do
  local b = buckets[i]
  if b.owed > 0 then
    for _, l in ipairs(b.limits) do
      if l.kind == RATE then
        if ceil(l.a, l.b) < now then l.a, l.b = now, 0 end
        l.a, l.b = plus(l, l.a, l.b, b.owed)
      elseif l.n then
        charged(l, b.owed)
      end
    end
    b.last = max(b.last, now)
  end
end

for _ = 1, number() do
  local at = number()
  for i = 1, nbuckets do
    local b = buckets[i]
    local off, more = number(), number()
    local t = at + off - b.off -- off was the bucket's when the slot was given
    local last = true -- nothing that is left was charged to the rates after it
    for _, l in ipairs(b.limits) do
      if more ~= 0 and l.n then
        settle(l, t, more)
      elseif l.kind == RATE and more > 0 then
        l.a, l.b = plus(l, l.a, l.b, more)
      elseif l.kind == RATE and more < 0 then
        if not rate_back(l, t, -more, b.last) then last = false end
      elseif l.kind == ADAPTIVE and more < 0 then
        if not rate_back(l, t, 1, b.last) then last = false end
      end
    end
    if last and more < 0 then b.last = min(b.last, t) end
  end
end

-- What servers told of when their windows end.

for _ = 1, number() do
  local b, d, reset = buckets[number()], number(), number()
  local found, several
  for _, l in ipairs(b and b.limits or {}) do
    if l.kind == FIXED and l.phase ~= 2 and (d == 0 or l.d == d) and reset > now and reset <= now + 2 * l.d then
      if found and found.d ~= l.d then several = true end
      found = l
    end
  end
  for _, l in ipairs(found and not several and b.limits or {}) do
    if l.kind == FIXED and l.phase ~= 2 and l.d == found.d then
      local start = reset - l.d
      local from = start - l.rounding
      if start > now + l.rounding then
        from = now - l.span -- longer than was declared: whatever is remembered may be in it
      elseif start > now then
        from = now - l.rounding
      end
      if heard(l, now) then
        -- The same window, told a little differently: what counted in it still does.
        local begun, stop = window(l, now)
        if reset < stop + floor(l.d / 2) then from = min(from, begun) end
      end
      l.told, l.from = reset, from
    end
  end
end

-- Departures.

local since = now
for i = 1, nbuckets do since = max(since, buckets[i].pause) end
-- In a longer pause nothing is reserved, so that nothing is lost when it is ended early.
local paused = since > now + horizon

-- unit is what a departure takes of a limit.
local function unit(l, cost)
  if l.kind == ADAPTIVE then return 1 end
  return cost
end

local function earliest(costs, high)
  local t, windows = since, false
  for i = 1, nbuckets do
    for _, l in ipairs(buckets[i].limits) do
      if l.n then
        windows = true
      elseif costs[i] > 0 then
        t = max(t, rate_due(l, unit(l, costs[i]), high))
      end
    end
  end
  if not windows then return min(t, FAR) end
  -- Where one has it wait, another may be shut then.
  for _ = 1, ROUNDS do
    local still = true
    for i = 1, nbuckets do
      for _, l in ipairs(buckets[i].limits) do
        if l.n and costs[i] > 0 then
          local e
          if l.kind == SLIDING then
            e = sliding_due(l, t, costs[i], high)
          elseif l.kind == COUNTER then
            e = counter_due(l, t, costs[i], high)
          else
            e = fixed_due(l, t, costs[i], high)
          end
          if e > t then t, still = e, false end
        end
      end
    end
    if still or t >= FAR then break end
  end
  return min(t, FAR)
end

local function charge(t, costs)
  for i = 1, nbuckets do
    local b, cost = buckets[i], costs[i]
    if cost > 0 then
      for _, l in ipairs(b.limits) do
        if l.kind == SLIDING then
          sliding_charge(l, t, cost)
        elseif l.kind == COUNTER then
          counter_charge(l, t, cost)
        elseif l.kind == FIXED then
          fixed_charge(l, t, cost)
        else
          rate_charge(l, t, unit(l, cost))
        end
      end
      b.last = max(b.last, t)
    end
  end
end

-- share is how many departures this instance may have that are due now, of those that it has and those for
-- which there is room.
local function share(has, costs, high)
  local most = FAR
  for i = 1, nbuckets do
    local b = buckets[i]
    if costs[i] > 0 then
      for _, l in ipairs(b.limits) do
        local room = has + max(0, free(l, unit(l, costs[i]), high))
        most = min(most, math.ceil(weight * room / b.live))
      end
    end
  end
  return max(1, most)
end

-- ahead is how many it may have that are not due yet.
local function ahead(costs, high)
  local most = FAR
  for i = 1, nbuckets do
    local b = buckets[i]
    if costs[i] > 0 then
      for _, l in ipairs(b.limits) do
        local k = unit(l, costs[i])
        if l.n then
          -- Of what there is room for now a share, whenever it leaves, as of what is due now.
          most = min(most, max(weight * horizon * l.n / (l.d * k), weight * free(l, k, high)) / b.live)
        else
          most = min(most, weight * horizon / ((l.I + l.R / l.Q) * k * b.live))
        end
      end
    end
  end
  return max(1, floor(most))
end

local out = {} -- pairs of a moment and how many leave then
local granted, at_once, later, short = 0, 0, 0, paused
local costs, high
for _ = 1, number() do
  local n = number()
  high = number() == 1
  costs = {}
  for i = 1, nbuckets do costs[i] = number() end
  local most, queue = nil, nil
  for _ = 1, n do
    if short then break end
    local t = earliest(costs, high)
    if t >= FAR then
      short = true
    elseif t <= now then
      most = most or share(at_once, costs, high)
      short = at_once >= most
      at_once = at_once + 1
    else
      queue = queue or ahead(costs, high)
      short = granted > 0 and (t > now + horizon or later >= queue)
      later = later + 1
    end
    if short then break end
    charge(t, costs)
    granted = granted + 1
    if out[#out - 1] == t then
      out[#out] = out[#out] + 1
    else
      out[#out + 1] = t
      out[#out + 1] = 1
    end
  end
end

for i = 1, nbuckets do
  for _, l in ipairs(buckets[i].limits) do
    if l.kind == ADAPTIVE then
      -- It rises while it is used, and they wait for it: by a twentieth of what it was cut to each second, and by
      -- twice as much every 10 s that nobody was refused since, but by a fifth at most.
      if l.busy and (later > 0 or short) then
        local step = l.step
        if l.cut > 0 then
          local doubled = min(40, floor(max(0, now - l.cut) / 10000000))
          step = min(step * 2 ^ doubled, max(step, floor(l.f / 5)))
        end
        l.f = min(l.max, l.f + floor(step * min(1000000, max(0, now - l.rose)) / 1000000))
      end
      if later > 0 or short or granted > 0 then l.rose = now end
    end
  end
end

local tail = since
if costs and not paused then tail = earliest(costs, high) end

-- What is remembered.

local expires = FAR
for i = 1, nbuckets do
  local b = buckets[i]
  local state = { fmt('1 %.0f %.0f %.0f %.0f %.0f %.0f 0', now + b.off, b.off, b.version, b.live,
    b.pause > 0 and b.pause + b.off or 0, max(0, b.last + b.off)) }
  local need, logs = max(now, b.pause), false
  for _, l in ipairs(b.limits) do
    need = max(need, write(l, state, b.off))
    logs = logs or l.kind == SLIDING
  end
  local ttl = need - now + REMEMBER
  expires = min(expires, ttl)
  ttl = fmt('%.0f', math.ceil(ttl / 1000))
  redis.call('SET', b.state, table.concat(state, ' ') .. '|' .. b.spec, 'PX', ttl)
  if logs then redis.call('PEXPIRE', b.log, ttl) end
end

local reply = { now, tail, min(expires, FAR / 2) - REMEMBER / 2, nbuckets }
for i = 1, nbuckets do
  local b = buckets[i]
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = b.live, b.pause, b.off, 0
  reply[n + 5] = 0
  for _, l in ipairs(b.limits) do
    if l.n then
      reply[n + 5] = reply[n + 5] + 1
      reply[#reply + 1] = used(l)
    elseif l.kind == ADAPTIVE then
      reply[n + 4] = l.f
    end
  end
end
for i = 1, #out do reply[#reply + 1] = out[i] end
return reply
