
-- Ends a reservation: so much of its cost stays counted, the rest is taken out of where it was counted.
--
-- KEYS   its key.     ARGV   1: keep i8 (-1: all), at_us i8 (-1: this server's clock)
-- Answer 0: there is none, or it has lapsed. 1: it was ended before. 2: done.
local keep
keep, at_us = unpack('>i8i8', ARGV[1])
if at_us < 0 then
  at_us = server_us()
end
last_us = at_us - at_us % 1000000 + 1999999

local function refund_tiered(key, life, handle, back, charge)
  local form = form_of(charge[1])
  local series = open_series(key, form)
  if not series or series.life ~= life then
    return
  end
  local i = begun_by(series, handle) - 1
  if i < 0 or bucket(series, i) ~= handle then
    return
  end
  local from = form.head_size + form.size * i
  local text, parts = call('GETRANGE', key, from, -1), {}
  for position = 1, #text, form.size do
    local start, total = unpack(form.bucket, text, position)
    parts[#parts + 1] = pack(form.bucket, start, (total - back) % WRAP)
  end
  call('SETRANGE', key, from, table.concat(parts))
end

local function refund_windows(key, life, handle, back, charge)
  local text = call('GET', key)
  if not text or unpack('>i8', text) ~= life then
    return
  end
  local parts, position = { pack('>i8', life) }, 9
  for n = 5, #charge do
    local ends, count
    ends, count, position = unpack('>I4I4', text, position)
    if ends - charge[n] <= handle and handle < ends then
      count = count - back
    end
    parts[#parts + 1] = pack('>I4I4', ends, count)
  end
  call('SET', key, table.concat(parts), 'KEEPTTL')
end

local function refund_counter(key, life, handle, back)
  local text = call('GET', key)
  local alive, opened, count
  if text then
    alive, opened, count = unpack(COUNTER_FORMAT, text)
  end
  if alive ~= life or opened ~= handle then
    return
  end
  if count > back then
    call('SET', key, pack(COUNTER_FORMAT, life, opened, count - back), 'KEEPTTL')
  else
    call('DEL', key) -- as if no hit had opened its window
  end
end

local function refund_list(key, life, handle, back)
  local head = call('LINDEX', key, 0)
  if not head or head ~= pack('>i8i8', life, handle) or back == 0 then
    return
  end
  -- The last of this name: the order of the others stays.
  call('LREM', key, -back, caller)
  if call('LLEN', key) == 1 then
    call('DEL', key)
  end
end

local function refund_tokens(key, life, handle, back, charge)
  local state = open_tokens(key, charge[5] or 1)
  if not state or state.life ~= life then
    return
  end
  local missing = {}
  for n = 1, #state do
    state[n].drops = drops_now(state[n], state.seen)
    missing[n] = state[n].full - state[n].drops
  end
  state.seen = moment(state.seen)
  trim_claims(state, missing)
  local which
  for n, claim in ipairs(state.claims) do
    which = claim.handle == handle and n or which
  end
  if not which then
    return -- nothing is given back to a full bucket, and only a hit or a refund moves it on in time
  end
  for n = 1, #state do
    -- Without that hit there would have been less missing since, for the other reservations too.
    local claimed = state.claims[which][n]
    local again = min(claimed, back * state[n].token)
    state[n].drops = state[n].drops + again
    for i, claim in ipairs(state.claims) do
      claim[n] = i < which and min(claim[n], claimed - again) or i == which and 0 or claim[n] - again
    end
  end
  local kept = {}
  for _, claim in ipairs(state.claims) do
    if max(spread(claim)) > 0 then
      kept[#kept + 1] = claim
    end
  end
  state.claims = kept
  call('SET', key, tokens_text(state), 'KEEPTTL')
end

local REFUND = { refund_tiered, refund_windows, refund_counter, refund_list, refund_tokens, refund_tiered }

local record = call('GET', KEYS[1])
if not record then
  return 0
end
record = cmsgpack.unpack(record)
local lapses, charged
lapses, cost, caller, charged = record[1], record[2], record[3], record[4]
if lapses <= at_us then
  return 0
elseif not charged then
  return 1
end
call('SET', KEYS[1], cmsgpack.pack({ lapses }), 'KEEPTTL')
local back = keep < 0 and 0 or max(0, cost - keep)
for _, charge in ipairs(charged) do
  local kind, key, alive, handle = charge[1], charge[2], charge[3], charge[4]
  REFUND[kind](key, alive, handle, back, charge)
end
return 2
