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
