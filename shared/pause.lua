-- Pauses a bucket: nothing leaves it for so many microseconds from now, or as long as it was paused before,
-- if that is longer. Zero ends a pause. All who have departures of it at hand are told.
--
-- KEYS: the bucket's state. ARGV: now or '', how long, the longest that is believed, the channel or '', what
-- to call the bucket there. It returns now and until when the bucket is paused, in us since 1970.

local max, min, fmt = math.max, math.min, string.format

local now = tonumber(ARGV[1])
local ours = string.match(ARGV[1], '^c(%d+)$')
if ours then now = tonumber(ours) end
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end
local d = min(tonumber(ARGV[2]), tonumber(ARGV[3]))

-- The head of a state: see lease.lua.
local clock, off, version, live, pause, last, rest = now, 0, 0, 1, 0, 0, ' 0|'
local s = redis.pcall('GET', KEYS[1])
local ttl = 0
if type(s) == 'string' then
  local c, o, v, m, p, l, r = string.match(s, '^1 (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)( .*)$')
  c, o, v, m, p, l = tonumber(c), tonumber(o), tonumber(v), tonumber(m), tonumber(p), tonumber(l)
  if r and max(c, o, p, l) <= 9007199254740992 and v <= 9007199254740992 and m <= 9007199254740992 then
    clock, off, version, live, pause, last, rest = c, o, v, m, p, l, r
    ttl = redis.call('PTTL', KEYS[1])
  end
end
if now + off < clock then off = clock - now end
if d > 0 then
  pause = max(min(pause, now + off + tonumber(ARGV[3])), now + off + d)
else
  pause = 0
end
ttl = max(ttl, math.ceil(max(0, pause - now - off) / 1000) + 60000)
redis.call('SET', KEYS[1], fmt('1 %.0f %.0f %.0f %.0f %.0f %.0f', now + off, off, version, live, pause, last) .. rest,
  'PX', fmt('%.0f', ttl))
pause = max(0, pause - off)
if ARGV[4] ~= '' then
  redis.call('PUBLISH', ARGV[4], fmt('%.0f %.0f %s', now, pause, ARGV[5]))
end
return { now, pause }
