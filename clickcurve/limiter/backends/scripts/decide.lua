-- One decision about any number of rules and rates: all or nothing, of one moment.
--
-- KEYS   one for each rule, or two: for its short and its long windows; then, for a reservation, that to keep it under.
-- ARGV   1: at_us i8 (-1: this server's clock), cost i8, take B, explain B, life i8 (for keys that begin with this hit),
--           and how long a reservation lasts in microseconds i8
--        2: the rules, as `redis_scripts` encodes them      3: the name that a list remembers
-- Answer taken B, at_us i8, then of each rule what it holds before this hit, from which the caller makes quotas; with
--        explain a list of that and, for each rule, its series or its callers after the hit.
local at_us, cost, take, explain, life, lasts_us = unpack('>i8i8BBi8i8', ARGV[1])
local plan, position, caller = ARGV[2], 1, ARGV[3]
-- The clocks of callers that send the time may differ by so much, and each still finds what the others have counted.
local grace_ms = 60000
if at_us < 0 then
  at_us, grace_ms = server_us(), 0
end
local second = div(at_us, 1000000)
local facts = {}

local function add_fact(format, ...)
  facts[#facts + 1] = pack(format, ...)
end

-- --- weighing: whether it fits. Nothing is written here -------------------------------------------------------------
-- The start of the bucket with which so many hits, from bucket `first` on, will have left.
local function leaves_with(series, first, before, many)
  local low, high = first, series.count - 1
  while low < high do
    local middle = floor((low + high) / 2)
    local _, sum = bucket(series, middle)
    if (sum - before) % WRAP >= many then
      high = middle
    else
      low = middle + 1
    end
  end
  return (bucket(series, low))
end

local function weigh_tiered(rule)
  local rates, tick_us
  tick_us, rule.edge, rule.keep, rates, position = unpack('>I4I4I4B', plan, position)
  rule.form = rule.kind == FINE and FINE_FORM or COARSE_FORM
  local series = open_series(rule.key, rule.form)
  rule.series = series
  local now = div(at_us, tick_us)
  add_fact(rule.form.latest, series and series.latest or 0)
  if series then
    now = max(now, series.latest)
    series.total = sum_before(series, series.count)
  end
  for _ = 1, rates do
    local limit, decided_s, other_s
    limit, decided_s, other_s, position = unpack('>I4I4I4', plan, position)
    local used, other, start = 0, 0, 0
    if series then
      local first = begun_by(series, now - decided_s)
      local before = sum_before(series, first)
      used = (series.total - before) % WRAP
      other = (series.total - sum_before(series, begun_by(series, now - other_s))) % WRAP
      if used > 0 and used + cost >= limit and cost <= limit then
        start = leaves_with(series, first, before, max(1, used + cost - limit))
      end
    end
    rule.fits = rule.fits and used + cost <= limit
    add_fact('>I4I4', used, other)
    add_fact(rule.form.latest, start)
  end
  rule.now = now
end

local function weigh_windows(rule)
  local rates
  rates, position = unpack('>B', plan, position)
  local text, at = call('GET', rule.key), 9
  rule.life = text and unpack('>i8', text) or life
  rule.windows = {}
  for n = 1, rates do
    local window = { ends = 0, count = 0 }
    local limit
    limit, window.width, position = unpack('>I4I4', plan, position)
    if text then
      window.ends, window.count, at = unpack('>I4I4', text, at)
    end
    rule.windows[n] = window
    rule.fits = rule.fits and (second < window.ends and window.count or 0) + cost <= limit
    add_fact('>I4I4', window.ends, window.count)
  end
end

local function weigh_opened(rule)
  local limit, width
  limit, width, position = unpack('>I4I4', plan, position)
  rule.life, rule.opened, rule.count = life, at_us, 0
  local found
  if rule.kind == LIST then
    local head = call('LINDEX', rule.key, 0)
    found = head and { unpack('>i8i8', head) }
    if found then
      found[3] = call('LLEN', rule.key) - 1
    end
  else
    local text = call('GET', rule.key)
    found = text and { unpack(COUNTER_FORMAT, text) }
  end
  if found and at_us < found[2] + width * 1000000 then
    rule.life, rule.opened, rule.count = found[1], found[2], found[3]
  end
  rule.fits = rule.count + cost <= limit
  add_fact('>i8i8', rule.opened, rule.count)
end

-- What a bucket holds after a change of its flow: its tokens, down to a thousandth.
local function converted(drops, old, new)
  local rest = fmod(drops, old.token)
  local tokens = (drops - rest) / old.token
  if tokens >= div(new.full, new.token) then
    return new.full
  end
  return min(new.full, tokens * new.token + div(div(rest * 1000, old.token) * new.token, 1000))
end

local function weigh_tokens(rule)
  local flow = {}
  flow.tick, flow.gain, flow.token, flow.full, position = unpack('>i8i8i8i8', plan, position)
  local state = open_tokens(rule.key)
  if not state then
    state = { life = life, drops = flow.full, seen = at_us, handles = 0, claims = {} }
  else
    local same = state.tick == flow.tick and state.gain == flow.gain and state.token == flow.token
      and state.full == flow.full
    local drops = drops_at(state, at_us)
    state.drops = same and drops or converted(drops, state, flow)
    state.seen = max(state.seen, at_us)
    trim_claims(state, same and flow.full - state.drops or 0, at_us)
  end
  state.tick, state.gain, state.token, state.full = flow.tick, flow.gain, flow.token, flow.full
  rule.state = state
  rule.fits = cost <= div(flow.full, flow.token) and cost * flow.token <= state.drops
  add_fact('>i8i8', state.drops, state.seen)
end

-- --- charging: each returns the life of the key and the handle by which the hit can be taken back -----------------
local function charge_tiered(rule)
  local form, now = rule.form, rule.now
  local series = rule.series
    or { form = form, text = '', size = form.head_size, life = life, latest = 0, base = 0, count = 0, total = 0 }
  local start = now - now % rule.edge
  local entry = pack(form.bucket, start, (series.total + cost) % WRAP)
  local last = series.count > 0 and bucket(series, series.count - 1) or -1
  local kept = series.count - (last == start and 1 or 0)
  local gone = now - rule.keep
  local cut = 0
  -- When half of it can no longer count, that half is dropped.
  if kept > 0 and bucket(series, floor(kept / 2)) <= gone then
    cut = min(kept, begun_by(series, gone))
  end
  if series.size < AT_ONCE or cut > 0 then
    local from, to = form.head_size + form.size * cut, form.head_size + form.size * kept
    local buckets = ''
    if to > from then
      buckets = series.size < AT_ONCE and series.text:sub(from + 1, to) or call('GETRANGE', rule.key, from, to - 1)
    end
    local head = pack(form.head, series.life, now, sum_before(series, cut))
    call('SET', rule.key, head .. buckets .. entry, 'PX', rule.ttl)
  else
    call('SETRANGE', rule.key, 8, pack(form.latest, now))
    call('SETRANGE', rule.key, form.head_size + form.size * kept, entry)
    call('PEXPIRE', rule.key, rule.ttl)
  end
  return series.life, start
end

local function charge_windows(rule)
  local parts, handle = { pack('>i8', rule.life) }, second
  for _, window in ipairs(rule.windows) do
    if second < window.ends then
      window.count = window.count + cost
    else
      window.ends, window.count = (div(second, window.width) + 1) * window.width, cost
    end
    handle = max(handle, window.ends - window.width)
    parts[#parts + 1] = pack('>I4I4', window.ends, window.count)
  end
  call('SET', rule.key, table.concat(parts), 'PX', rule.ttl)
  -- A second that lies in all of these windows, and in no others.
  return rule.life, handle
end

local function charge_counter(rule)
  call('SET', rule.key, pack(COUNTER_FORMAT, rule.life, rule.opened, rule.count + cost), 'PX', rule.ttl)
  return rule.life, rule.opened
end

local function charge_list(rule)
  if rule.count == 0 then
    call('DEL', rule.key)
    call('RPUSH', rule.key, pack('>i8i8', rule.life, rule.opened))
  end
  local names = {}
  for n = 1, cost do
    names[#names + 1] = caller
    if #names == 1000 or n == cost then
      call('RPUSH', rule.key, spread(names))
      names = {}
    end
  end
  call('PEXPIRE', rule.key, rule.ttl)
  return rule.life, rule.opened
end

local function charge_tokens(rule, held)
  local state = rule.state
  state.drops = state.drops - cost * state.token
  if held then
    state.handles = (state.handles + 1) % WRAP
    state.claims[#state.claims + 1] = { handle = state.handles, lapses = at_us + lasts_us, drops = state.full }
  end
  call('SET', rule.key, tokens_text(state), 'PX', rule.ttl)
  return state.life, state.handles
end

local WEIGH = { weigh_tiered, weigh_windows, weigh_opened, weigh_opened, weigh_tokens, weigh_tiered }
local CHARGE = { charge_tiered, charge_windows, charge_counter, charge_list, charge_tokens, charge_tiered }

-- --- the decision ----------------------------------------------------------------------------------------------------
local rules, admitted = {}, true
local many
many, position = unpack('>B', plan, position)
for n = 1, many do
  local rule = { key = KEYS[n], fits = true }
  local flags, ttl_ms
  rule.kind, flags, ttl_ms, position = unpack('>BBi8', plan, position)
  rule.ttl = whole(ttl_ms + grace_ms)
  WEIGH[rule.kind](rule)
  if flags >= 2 then -- a part of the same rule as the one before
    rule.fits = rule.fits and rules[n - 1].fits
    rules[n - 1].fits = rule.fits
  end
  admitted = admitted and (rule.fits or flags % 2 == 1)
  rules[n] = rule
end

local taken = admitted and take == 1
if taken then
  local held, charged = KEYS[many + 1], {}
  for _, rule in ipairs(rules) do
    if rule.fits then
      local alive, handle = CHARGE[rule.kind](rule, held)
      local charge = { rule.kind, rule.key, alive, handle }
      for n, window in ipairs(rule.windows or {}) do
        charge[4 + n] = window.width
      end
      charged[#charged + 1] = charge
    end
  end
  if held then
    local record = cmsgpack.pack({ at_us + lasts_us, cost, caller, charged })
    call('SET', held, record, 'PX', whole(div(lasts_us, 1000) + 1000 + grace_ms))
  end
end

local answer = pack('>Bi8', taken and 1 or 0, at_us) .. table.concat(facts)
if explain == 0 then
  return answer
end
local answers = { answer }
for n, rule in ipairs(rules) do
  if rule.kind == LIST then
    -- The list of a window that is over still holds its callers.
    local open = rule.count > 0 or (taken and rule.fits)
    answers[n + 1] = open and call('LRANGE', rule.key, 1, -1) or {}
  elseif rule.kind == TIERED or rule.kind == FINE then
    answers[n + 1] = call('GET', rule.key) or ''
  else
    answers[n + 1] = ''
  end
end
return answers
