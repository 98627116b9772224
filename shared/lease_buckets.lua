-- Buckets.

-- drain has the first unit leave a rate at t, and the others follow.
local function drain(l, t)
  local a, b = plus(l, t, 0, l.burst - 1)
  if a > l.a or a == l.a and b > l.b then l.a, l.b = a, b end
  if l.gaps then shut(l, t) end
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
  if i + 3 * x[8] ~= n + 1 then return nil end
  for j = i, n - 2, 3 do
    local l = limits[x[j]]
    if not l or l.kind ~= RATE then return nil end
    l.gaps = l.gaps or {}
    l.gaps[#l.gaps + 1] = { x[j + 1] - off, x[j + 1] - off + x[j + 2] }
  end
  for _, l in ipairs(limits) do
    if l.kind == SLIDING then expire(l) end
    if l.gaps then shut(l, now) end
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
