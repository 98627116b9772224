-- What the instances of a region know of each other and of their share. One of them leads: it talks to the ledger for all.
--
-- KEYS  1 hash: 'leader', 'until' (us), 'record', 'end' (us), and for each instance 'i:' and its name -> its report
-- ARGV  1 instance   2 share in effect there; '' it leaves   3 rest of its report   4 lease of the leader, us
--       5 for how long a report counts, us   6 a record, if it leads   7 when that ends, us
-- reply {time, 1 if it leads, record, us until that ends, all reports...}
local me, lease, keep = ARGV[1], tonumber(ARGV[4]), tonumber(ARGV[5])
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]

local h, reports = {}, {}
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do h[all[i]] = all[i + 1] end
if ARGV[2] == '' then
  redis.call('HDEL', KEYS[1], 'i:' .. me)
  if h.leader == me then redis.call('HDEL', KEYS[1], 'leader') end
  return {now, 0, '', 0}
end

if ARGV[6] and h.leader == me then
  h.record, h['end'] = ARGV[6], ARGV[7]
  redis.call('HSET', KEYS[1], 'record', ARGV[6], 'end', ARGV[7])
end
local ends = tonumber(h['end'] or '') or 0
-- What is told to an instance may be in effect there from now on.
local share = tonumber(ARGV[2])
if ends > now then share = math.max(share, tonumber(string.match(h.record, '^%d+')) or 0) end
h['i:' .. me] = string.format('%.0f %.0f ', now, share) .. ARGV[3]
redis.call('HSET', KEYS[1], 'i:' .. me, h['i:' .. me])

local leads = tonumber(h['until'] or '') or 0
if h.leader == me or not h.leader or leads < now or leads > now + 2 * lease then
  h.leader = me
  redis.call('HSET', KEYS[1], 'leader', me, 'until', string.format('%.0f', now + lease))
end
for i, r in pairs(h) do
  if string.sub(i, 1, 2) == 'i:' then
    local at, rest = string.match(r, '^(%d+) (.*)$')
    at = tonumber(at) or 0
    if at < now - keep then
      redis.call('HDEL', KEYS[1], i)
    else
      if at > now then redis.call('HSET', KEYS[1], i, string.format('%.0f ', now) .. rest) end -- the clock went back
      reports[#reports + 1] = rest
    end
  end
end
redis.call('PEXPIRE', KEYS[1], math.ceil(keep / 1000) * 2 + 60000)

local reply = {now, h.leader == me and 1 or 0, h.record or '', math.max(0, ends - now)}
for _, r in ipairs(reports) do reply[#reply + 1] = r end
return reply
