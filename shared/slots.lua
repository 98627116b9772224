-- Slots of a concurrency that a fleet shares. Each instance has a count, which is what it may have out. It is absolute, so
-- that a call which comes twice, or whose answer is lost, changes nothing. It falls only when the instance says that it
-- believes to have less, and has less out: it may have let requests leave since it asked.
--
-- KEYS  1 hash: instance -> count   2 hash: instance -> how many it wants   3 zset: instance -> when its lease ends, us
-- ARGV  1 instance   2 wanted   3 out   4 the count that it believes to have   5 slots there are   6 lease, us
--       7 channel   8 message for those who have to ask again   9 'c' and the time in us where Redis may not be asked; ''
-- reply {count that it may have, 1 if it had lost its lease, 1 if it is to ask again, how many instances have or want some}
local me, want, out, had = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local slots, lease = tonumber(ARGV[5]), tonumber(ARGV[6])
local ours = string.match(ARGV[9], '^c(%d+)$')
local now = ours and tonumber(ours)
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end

-- Whose lease has ended is dead, or as good as that. A clock that went back ends no lease late by more than one.
for _, i in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', string.format('%.0f', now), 'LIMIT', 0, 100)) do
  redis.call('HDEL', KEYS[1], i)
  redis.call('HDEL', KEYS[2], i)
  redis.call('ZREM', KEYS[3], i)
end
for _, i in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], string.format('(%.0f', now + 2 * lease), '+inf', 'LIMIT', 0, 100)) do
  redis.call('ZADD', KEYS[3], string.format('%.0f', now + lease), i)
end

local mine = tonumber(redis.call('HGET', KEYS[1], me))
local lost = (had > 0 and not mine) and 1 or 0
mine = mine or 0
if want > 0 then
  redis.call('HSET', KEYS[2], me, string.format('%.0f', want))
else
  redis.call('HDEL', KEYS[2], me)
end

-- What the others have and want.
local others, held, wants, total = 0, {}, {}, 0
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  held[all[i]] = tonumber(all[i + 1]) or 0
  if all[i] ~= me then others = others + held[all[i]] end
end
all = redis.call('HGETALL', KEYS[2])
for i = 1, #all, 2 do
  wants[#wants + 1] = {id = all[i], n = tonumber(all[i + 1]) or 0}
  total = total + wants[#wants].n
end

-- Where more is wanted than there is, everybody gets the same, but no more than it wants; where there are more instances
-- than slots, they take turns of a quarter of a second.
local share = {}
if total <= slots then
  for _, w in ipairs(wants) do share[w.id] = w.n end
elseif #wants > slots then
  table.sort(wants, function(a, b) return a.id < b.id end)
  local turn = math.floor(now / 250000) % #wants
  for i, w in ipairs(wants) do
    share[w.id] = ((i - 1 + #wants - turn) % #wants) < slots and 1 or 0
  end
else
  table.sort(wants, function(a, b) return a.n < b.n or (a.n == b.n and a.id < b.id) end)
  local left = slots
  for i, w in ipairs(wants) do
    local n = math.min(w.n, math.floor(left / (#wants - i + 1)))
    share[w.id], left = n, left - n
  end
end
local grant = math.max(0, math.min(share[me] or 0, slots - others))
local count = math.max(grant, out, lost == 1 and 0 or had)

if count > 0 or want > 0 then
  redis.call('HSET', KEYS[1], me, string.format('%.0f', count))
  redis.call('ZADD', KEYS[3], string.format('%.0f', now + lease), me)
else
  redis.call('HDEL', KEYS[1], me)
  redis.call('ZREM', KEYS[3], me)
end
for i = 1, 3 do redis.call('PEXPIRE', KEYS[i], math.ceil(lease / 1000) * 2 + 1000) end

-- Those have to hear of it who have more than their share while somebody has less, or who could have more now.
local less, more = false, false
for _, w in ipairs(wants) do
  local has = w.id == me and count or held[w.id] or 0
  if has < share[w.id] then less = true end
  if w.id ~= me and has > share[w.id] then more = true end
end
if less and (more or count < mine) then redis.call('PUBLISH', ARGV[7], ARGV[8]) end
return {grant, lost, grant < (share[me] or 0) and 1 or (want > grant and 1 or 0), redis.call('ZCARD', KEYS[3])}
