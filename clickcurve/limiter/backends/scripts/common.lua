-- How keys are kept, and whole numbers. All numbers are integers below 2^53, which a double counts exactly.
--
-- One Redis key for each key of a rule; its first 8 bytes tell one life of it from the next (`life`), so that what was
-- reserved in one is never taken out of another. Numbers are big-endian.
--
--   tiered      life i8, latest second I4, sum before the first bucket I4, then for each bucket its start I4 and the sum
--               up to its end I4. Sums wrap at 2^32; only differences mean something, and those are below it.
--   fine        the same in ticks of a part of a second; latest and starts are i8
--   windows     life i8, then for each rate the end of its window I4 and its count I4
--   counter     life i8, microsecond at which its window opened i8, count I4
--   list        a list: life i8 and the opening microsecond i8 in one element, then the callers
--   tokens      life i8, drops i8, as of microsecond i8, its flow: tick i8, gain i8, token i8, full i8; handles used I4;
--               then for each open reservation its handle I4, the microsecond at which it lapses i8, and its claim i8
local spread = unpack
local pack, unpack = struct.pack, struct.unpack
local floor, fmod, min, max = math.floor, math.fmod, math.min, math.max
local call = redis.call

local TIERED, WINDOWS, COUNTER, LIST, TOKENS, FINE = 1, 2, 3, 4, 5, 6
local WRAP = 4294967296
-- How a series' head and its buckets are packed, and their sizes.
local COARSE_FORM = { head = '>i8I4I4', head_size = 16, bucket = '>I4I4', size = 8, latest = '>I4' }
local FINE_FORM = { head = '>i8i8I4', head_size = 20, bucket = '>i8I4', size = 12, latest = '>i8' }
-- So many bytes of a series are read at once; the rest is read bucket by bucket.
local AT_ONCE = 4096
local COUNTER_FORMAT = '>i8i8I4'
local TOKENS_FORMAT, CLAIM_FORMAT = '>i8i8i8i8i8i8i8I4', '>I4i8i8'

-- Whole division without the rounding of `/`: a >= 0, b > 0.
local function div(a, b)
  return (a - fmod(a, b)) / b
end

local function server_us()
  local time = call('TIME')
  return time[1] * 1000000 + time[2]
end

-- As text: Redis would write a large number with an exponent.
local function whole(number)
  return string.format('%.0f', number)
end

-- --- tiered ----------------------------------------------------------------------------------------------------------
-- nil where there is nothing.
local function open_series(key, form)
  local text = call('GETRANGE', key, 0, AT_ONCE - 1)
  if text == '' then
    return nil
  end
  local size = #text
  if size == AT_ONCE then
    size = call('STRLEN', key)
  end
  local life, latest, base = unpack(form.head, text)
  return {
    key = key, form = form, text = text, size = size, life = life, latest = latest, base = base,
    count = (size - form.head_size) / form.size,
  }
end

-- The start of bucket number i, from 0, and the sum up to its end.
local function bucket(series, i)
  local form = series.form
  local position = form.head_size + form.size * i
  if position + form.size <= #series.text then
    return unpack(form.bucket, series.text, position + 1)
  end
  return unpack(form.bucket, call('GETRANGE', series.key, position, position + form.size - 1))
end

local function sum_before(series, i)
  if i == 0 then
    return series.base
  end
  local _, sum = bucket(series, i - 1)
  return sum
end

-- How many buckets begin at this second or before.
local function begun_by(series, second)
  local low, high = 0, series.count
  while low < high do
    local middle = floor((low + high) / 2)
    if bucket(series, middle) <= second then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

-- --- tokens ----------------------------------------------------------------------------------------------------------
local function open_tokens(key)
  local text = call('GET', key)
  if not text then
    return nil
  end
  local state, position = { claims = {} }, nil
  state.life, state.drops, state.seen, state.tick, state.gain, state.token, state.full, state.handles, position =
    unpack(TOKENS_FORMAT, text)
  while position <= #text do
    local claim = {}
    claim.handle, claim.lapses, claim.drops, position = unpack(CLAIM_FORMAT, text, position)
    state.claims[#state.claims + 1] = claim
  end
  return state
end

local function tokens_text(state)
  local parts = {
    pack(TOKENS_FORMAT, state.life, state.drops, state.seen, state.tick, state.gain, state.token, state.full,
      state.handles),
  }
  for _, claim in ipairs(state.claims) do
    parts[#parts + 1] = pack(CLAIM_FORMAT, claim.handle, claim.lapses, claim.drops)
  end
  return table.concat(parts)
end

local function drops_at(state, at_us)
  if at_us <= state.seen then
    return state.drops
  end
  local ticks = div(at_us, state.tick) - div(state.seen, state.tick)
  local missing = state.full - state.drops
  if ticks > div(missing, state.gain) then
    return state.full
  end
  return state.drops + ticks * state.gain
end

-- Claims are never more than what is missing; those of reservations that have lapsed mean nothing.
local function trim_claims(state, missing, at_us)
  local kept = {}
  for _, claim in ipairs(state.claims) do
    claim.drops = min(claim.drops, missing)
    if claim.drops > 0 and claim.lapses > at_us then
      kept[#kept + 1] = claim
    end
  end
  state.claims = kept
end
