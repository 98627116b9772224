-- Rates.

-- due is the first whole microsecond at which a rate lets a cost leave.
local function rate_due(l, cost, high)
  local spare = (high and l.burst or l.ordinary) - cost
  if spare <= 0 then return ceil(l.a, l.b) end
  return ceil(plus(l, l.a, l.b, -spare))
end

-- A departure that several limits hold may be later than a rate alone would have it. What it skips is a gap: others may
-- leave in it. Gaps are whole microseconds, from the moment at which the rate would let one leave to that at which the next
-- has begun, in order, and at most so many.
local MOST_GAPS = 200

-- need is how long a gap has to be for a cost. Of slow rates the fraction of a microsecond is left out: else what is handed
-- back would never fit. So a departure may be early by 1 us for each unit.
local function need(l, cost)
  if l.I < 1000 and l.R > 0 then return cost * (l.I + 1) end
  return cost * l.I
end

-- gap finds the first one that has room for a cost that leaves at s or later: which, when, and from where on it is taken. What
-- is taken begins when it leaves, or up to a burst later.
local function gap(l, s, cost, high)
  local spare = max(0, (high and l.burst or l.ordinary) - cost)
  for i, g in ipairs(l.gaps) do
    local t = max(s, g[1] - spare * l.I)
    local v = max(g[1], t)
    if v + need(l, cost) <= g[2] then return i, t, v end
  end
end

-- rate_at is the first moment, not before s, at which a rate lets a cost leave.
local function rate_at(l, s, cost, high)
  local t = max(s, rate_due(l, cost, high))
  if l.gaps and t > s then
    local _, sooner = gap(l, s, cost, high)
    if sooner and sooner < t then return sooner end
  end
  return t
end

-- open adds a gap, which begins now at the earliest, and is long enough for something.
local function open(l, from, to)
  from = max(from, now)
  if l.kind ~= RATE or l.I == 0 or to - from < need(l, 1) then return end
  l.gaps = l.gaps or {}
  local i = #l.gaps
  while i > 0 and l.gaps[i][1] > from do i = i - 1 end
  if i > 0 and l.gaps[i][2] >= from then
    l.gaps[i][2] = max(l.gaps[i][2], to)
  elseif #l.gaps < MOST_GAPS then
    table.insert(l.gaps, i + 1, { from, to })
    i = i + 1
  end
  local after = l.gaps[i + 1]
  if i > 0 and after and after[1] <= l.gaps[i][2] then
    l.gaps[i][2] = max(l.gaps[i][2], after[2])
    table.remove(l.gaps, i + 1)
  end
end

-- shut drops what lies before t.
local function shut(l, t)
  local kept
  for _, g in ipairs(l.gaps or {}) do
    g[1] = max(g[1], t)
    if g[2] - g[1] >= need(l, 1) then
      kept = kept or {}
      kept[#kept + 1] = g
    end
  end
  l.gaps = kept
end

local function rate_charge(l, due, cost, high)
  if l.gaps then
    local i, t, v = gap(l, due, cost, high)
    if i and t == due and max(due, rate_due(l, cost, high)) > due then
      local stop = l.gaps[i][2]
      l.gaps[i][2] = v
      if l.gaps[i][2] - l.gaps[i][1] < need(l, 1) then table.remove(l.gaps, i) end
      open(l, v + ceil(plus(l, 0, 0, cost)), stop)
      return
    end
  end
  if ceil(l.a, l.b) < due then
    if due > now and nbuckets > 1 then open(l, ceil(l.a, l.b), due) end
    l.a, l.b = due, 0
  end
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
  if l.burst == 1 and l.kind == RATE and at > now and at < last and ceil(plus(l, l.a, l.b, -units)) > at then
    open(l, at, at + need(l, units)) -- others have been let go after it
    return false
  end
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
