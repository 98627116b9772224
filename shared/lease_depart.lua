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
    for _, l in ipairs(b.limits) do
      local g = l.gaps and l.gaps[#l.gaps]
      if g and g[2] >= ceil(l.a, l.b) then -- before it nothing is left but a gap
        l.a, l.b = g[1], 0
        table.remove(l.gaps)
      end
    end
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

-- own is when one bucket by itself would let it leave, from t on; again is set if that has to be asked again of all.
local function own(b, t, cost, high)
  local again = false
  if cost == 0 then return t, again end
  for _, l in ipairs(b.limits) do
    if l.n or l.gaps then
      again = true
    else
      t = max(t, rate_due(l, unit(l, cost), high))
    end
  end
  return t, again
end

local function earliest(costs, high)
  local t, several = since, false
  for i = 1, nbuckets do
    local again
    t, again = own(buckets[i], t, costs[i], high)
    several = several or again
  end
  if not several then return min(t, FAR) end
  -- Where one has it wait, another may be shut then.
  for _ = 1, ROUNDS do
    local still = true
    for i = 1, nbuckets do
      for _, l in ipairs(buckets[i].limits) do
        if (l.n or l.gaps) and costs[i] > 0 then
          local e
          if l.gaps then
            e = rate_at(l, t, unit(l, costs[i]), high)
          elseif l.kind == SLIDING then
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

-- waits is how much longer than a horizon a wider bucket would have to be kept for a departure that a narrower one has
-- wait: it is not leased as long as that is so.
local function waits(t, costs, high)
  if nbuckets == 1 or t <= now + horizon then return false end
  local binding, latest = 1, -1
  local alone = {}
  for i = 1, nbuckets do
    alone[i] = own(buckets[i], since, costs[i], high)
    for _, l in ipairs(buckets[i].limits) do
      if l.gaps and costs[i] > 0 then alone[i] = rate_at(l, alone[i], unit(l, costs[i]), high) end
      if l.n and costs[i] > 0 then
        local due = l.kind == SLIDING and sliding_due or l.kind == COUNTER and counter_due or fixed_due
        alone[i] = max(alone[i], (due(l, alone[i], costs[i], high)))
      end
    end
    if alone[i] > latest then binding, latest = i, alone[i] end
  end
  for i = 1, binding - 1 do
    if costs[i] > 0 and t - alone[i] > horizon then return true end
  end
  return false
end

local function charge(t, costs, high)
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
          rate_charge(l, t, unit(l, cost), high)
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
  if nbuckets > 1 then most = math.ceil(most) end -- the narrower one's share is small, and the wider one's way is long
  return max(1, floor(most))
end

-- Where a wide bucket is leased for all of a horizon, those who need a narrow one too would get no more than one at a time.
local reach = nbuckets > 1 and 2 * horizon or horizon

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
      short = granted > 0 and (t > now + reach or later >= queue) or waits(t, costs, high)
      later = later + 1
    end
    if short then break end
    charge(t, costs, high)
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
  local gaps = {}
  for j, l in ipairs(b.limits) do
    shut(l, now)
    for _, g in ipairs(l.gaps or {}) do gaps[#gaps + 1] = fmt('%d %.0f %.0f', j, g[1] + b.off, g[2] - g[1]) end
  end
  local state = { fmt('1 %.0f %.0f %.0f %.0f %.0f %.0f %d', now + b.off, b.off, b.version, b.live,
    b.pause > 0 and b.pause + b.off or 0, max(0, b.last + b.off), #gaps) }
  local until_, logs = max(now, b.pause), false
  for _, l in ipairs(b.limits) do
    until_ = max(until_, write(l, state, b.off))
    logs = logs or l.kind == SLIDING
  end
  for _, g in ipairs(gaps) do state[#state + 1] = g end
  local ttl = until_ - now + REMEMBER
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
