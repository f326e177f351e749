
-- One decision about any number of rules and rates: all or nothing, of one moment.
--
-- KEYS   one for each rule, or two: for its short and its long windows; then, for a reservation, that to keep it under.
-- ARGV   1: at_us i8 (-1: this server's clock), cost I4, take B, explain B, life i8 (for keys that begin with this hit),
--           how long a reservation lasts in microseconds i8; then the rules, as `redis_scripts` encodes them: how many B,
--           of each its kind B, flags B, how many rates B, its life in milliseconds as Redis takes it (with its length
--           before it B; numbers would be written as text each time), and what its kind needs
--        2: the name that a list remembers, if there is one
-- Answer taken B, at_us i8, then of each rule what it holds before this hit, from which the caller makes quotas; with
--        explain a list of that and, for each rule, its series or its callers after the hit.
local take, explain, many
plan, caller = ARGV[1], ARGV[2] or ''
at_us, cost, take, explain, life, lasts_us, many, position = unpack('>i8I4BBi8i8B', plan)
-- The clocks of callers that send the time may differ by so much, and each still finds what the others have counted.
local grace_ms = 60000
if at_us < 0 then
  at_us, grace_ms = server_us(), 0
end
second = div(at_us, 1000000)
last_us = at_us - at_us % 1000000 + 1999999
held = KEYS[many + 1]

local rules, admitted, facts = {}, true, ''
for n = 1, many do
  local kind, flags, rates, ttl_ms, fits, fact
  kind, flags, rates, ttl_ms, position = unpack('>BBBBc0', plan, position)
  if grace_ms > 0 then
    ttl_ms = ttl_ms + grace_ms
  end
  -- All of its fields at once: a table that grows is made anew.
  local rule = { key = KEYS[n], kind = kind, ttl = ttl_ms, fits = true, state = 0, handle = 0, more = NONE }
  fits, fact = WEIGH[kind](rule, rates)
  if flags >= 2 then -- a part of the same rule as the one before
    fits = fits and rules[n - 1].fits
    rules[n - 1].fits = fits
  end
  rule.fits = fits
  admitted = admitted and (fits or flags % 2 == 1)
  rules[n], facts = rule, facts .. fact
end

local taken = admitted and take == 1
if take == 1 then
  local charged = {}
  for n = 1, many do
    local rule = rules[n]
    if not (taken and rule.fits) then
      if rule.state.shortened then
        SHORTEN[rule.kind](rule)
      end
    else
      local alive, handle = CHARGE[rule.kind](rule)
      if held then
        charged[#charged + 1] = { rule.kind, rule.key, alive, handle, spread(rule.more) }
      end
    end
  end
  if held and taken then
    local record = cmsgpack.pack({ at_us + lasts_us, cost, caller, charged })
    call('SET', held, record, 'PX', div(lasts_us, 1000) + 1000 + grace_ms)
  end
end

local answer = pack('>Bi8', taken and 1 or 0, at_us) .. facts
if explain == 0 then
  return answer
end
local answers = { answer }
for n, rule in ipairs(rules) do
  if rule.kind == LIST then
    -- The list of a window that is over still holds its callers.
    local open = rule.state.count > 0 or (taken and rule.fits)
    answers[n + 1] = open and call('LRANGE', rule.key, 1, -1) or {}
  elseif rule.kind == TIERED or rule.kind == FINE then
    answers[n + 1] = call('GET', rule.key) or ''
  else
    answers[n + 1] = ''
  end
end
return answers
