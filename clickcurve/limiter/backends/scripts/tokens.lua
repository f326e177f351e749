
-- --- token buckets ----------------------------------------------------------------------------------------------------
local FIRST_FORMAT, NEXT_FORMAT = '>i8i8i8i8i8i8i8I4', '>i8i8i8i8i8'

-- The buckets of so many rates, and the claims of open reservations; nil where there is nothing.
local function open_tokens(key, rates)
  local text = call('GET', key)
  if not text then
    return nil
  end
  local alive, drops, seen, tick, gain, token, full, handles, at = unpack(FIRST_FORMAT, text)
  local state = { life = alive, seen = seen, handles = handles, claims = {} }
  state[1] = { drops = drops, tick = tick, gain = gain, token = token, full = full }
  for n = 2, rates do
    drops, tick, gain, token, full, at = unpack(NEXT_FORMAT, text, at)
    state[n] = { drops = drops, tick = tick, gain = gain, token = token, full = full }
  end
  while at <= #text do
    local handle, lapses
    handle, lapses, at = unpack('>I4i8', text, at)
    local claim = { handle = handle, lapses = lapses }
    for n = 1, rates do
      claim[n], at = unpack('>i8', text, at)
    end
    state.claims[#state.claims + 1] = claim
  end
  return state
end

local function tokens_text(state)
  local first = state[1]
  local text = pack(FIRST_FORMAT, state.life, first.drops, state.seen, first.tick, first.gain, first.token, first.full,
    state.handles)
  if #state == 1 and #state.claims == 0 then
    return text
  end
  local parts = { text }
  for n = 2, #state do
    local each = state[n]
    parts[n] = pack(NEXT_FORMAT, each.drops, each.tick, each.gain, each.token, each.full)
  end
  for _, claim in ipairs(state.claims) do
    parts[#parts + 1] = pack('>I4i8', claim.handle, claim.lapses)
    for n = 1, #state do
      parts[#parts + 1] = pack('>i8', claim[n])
    end
  end
  return concat(parts)
end

-- What a bucket holds now, of which `seen` is the moment of its drops; it is full if that lies too far in the future.
local function drops_now(bucket, seen)
  local now, tick, gain = moment(seen), bucket.tick, bucket.gain
  local ticks = tick == 1 and now - seen or div(now, tick) - div(seen, tick)
  -- By division: the product of a long time may be too large for a double.
  if ticks > div(bucket.full - bucket.drops, gain) or -ticks > div(bucket.drops, gain) then
    return bucket.full
  end
  return bucket.drops + ticks * gain
end

-- A claim is never more than what is missing; those of reservations that have lapsed mean nothing.
local function trim_claims(state, missing)
  local kept = {}
  for _, claim in ipairs(state.claims) do
    local most = 0
    for n = 1, #state do
      claim[n] = min(claim[n], missing[n])
      most = max(most, claim[n])
    end
    if most > 0 and claim.lapses > at_us then
      kept[#kept + 1] = claim
    end
  end
  state.claims = kept
end

-- What a bucket holds after a change of its flow: its tokens, down to a thousandth.
local function converted(drops, old, token, full)
  local rest = drops % old.token
  local tokens = (drops - rest) / old.token
  if tokens >= div(full, token) then
    return full
  end
  return min(full, tokens * token + div(div(rest * 1000, old.token) * token, 1000))
end

WEIGH[TOKENS] = function(rule, rates)
  local state = open_tokens(rule.key, rates)
  local seen = state and moment(state.seen) or at_us
  local fits, facts, missing = true, '', {}
  local next_state = { life = life, seen = seen, handles = 0, claims = {} }
  for n = 1, rates do
    local tick, gain, token, full
    tick, gain, token, full, position = unpack('>i8i8i8i8', plan, position)
    local drops, old = full, state and state[n]
    missing[n] = 0
    if old then
      drops = drops_now(old, state.seen)
      if old.tick == tick and old.gain == gain and old.token == token and old.full == full then
        missing[n] = full - drops
      else
        drops = converted(drops, old, token, full)
      end
    end
    next_state[n] = { drops = drops, tick = tick, gain = gain, token = token, full = full }
    fits = fits and cost <= div(full, token) and cost * token <= drops
    facts = facts .. pack('>i8', drops)
  end
  if state then
    next_state.life, next_state.handles, next_state.claims = state.life, state.handles, state.claims
    if #state.claims > 0 then
      trim_claims(next_state, missing)
    end
  end
  rule.state = next_state
  return fits, facts .. pack('>i8', seen)
end

CHARGE[TOKENS] = function(rule)
  local state = rule.state
  for n = 1, #state do
    state[n].drops = state[n].drops - cost * state[n].token
  end
  if held then
    state.handles = (state.handles + 1) % WRAP
    rule.more = { #state }
    local claim = { handle = state.handles, lapses = at_us + lasts_us }
    for n = 1, #state do
      claim[n] = state[n].full
    end
    state.claims[#state.claims + 1] = claim
  end
  call('SET', rule.key, tokens_text(state), 'PX', rule.ttl)
  return state.life, state.handles
end
