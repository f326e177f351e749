
-- --- sliding windows over tiers ---------------------------------------------------------------------------------------
-- So many bytes of a series are read at once; the rest is read bucket by bucket.
local AT_ONCE = 4096

-- How a series' head, its buckets and the facts about a rate are packed, and the sizes of the first two.
local function form_of(kind)
  if kind == FINE then
    return { head = '>i8i8I4', head_size = 20, bucket = '>i8I4', size = 12, latest = '>i8', fact = '>I4I4i8' }
  end
  return { head = '>i8I4I4', head_size = 16, bucket = '>I4I4', size = 8, latest = '>I4', fact = '>I4I4I4' }
end

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
  local alive, latest, base = unpack(form.head, text)
  return {
    key = key, form = form, text = text, size = size, life = alive, latest = latest, base = base,
    count = (size - form.head_size) / form.size, total = 0, now = 0, edge = 0, keep = 0,
  }
end

-- The start of bucket number i, from 0, and the sum up to its end.
local function bucket(series, i)
  local form = series.form
  local from = form.head_size + form.size * i
  if from + form.size <= #series.text then
    return unpack(form.bucket, series.text, from + 1)
  end
  return unpack(form.bucket, call('GETRANGE', series.key, from, from + form.size - 1))
end

local function sum_before(series, i)
  if i == 0 then
    return series.base
  end
  local _, sum = bucket(series, i - 1)
  return sum
end

-- How many buckets begin at this tick or before.
local function begun_by(series, tick)
  local low, high = 0, series.count
  if bucket(series, 0) > tick then
    return 0 -- most often: the window reaches back beyond the oldest
  end
  while low < high do
    local middle = floor((low + high) / 2)
    if bucket(series, middle) <= tick then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

-- Forgets the buckets that begin after a tick.
local function forget_after(series, tick)
  if tick < series.latest then
    series.shortened, series.count = true, begun_by(series, tick)
    series.latest = series.count > 0 and bucket(series, series.count - 1) or 0
  end
end

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

local function weigh_tiered(rule, rates)
  local tick_us, edge, keep
  tick_us, edge, keep, position = unpack('>I4I4I4', plan, position)
  local form = form_of(rule.kind)
  local series = open_series(rule.key, form)
  local now = div(at_us, tick_us)
  if series then
    forget_after(series, div(last_us, tick_us))
    now = max(now, series.latest)
    series.total = sum_before(series, series.count)
  end
  local fits, facts = true, pack(form.latest, series and series.latest or 0)
  for _ = 1, rates do
    local limit, decided, other_end
    limit, decided, other_end, position = unpack('>I4I4I4', plan, position)
    local used, other, start = 0, 0, 0
    if series then
      local first = begun_by(series, now - decided)
      local before = sum_before(series, first)
      used = (series.total - before) % WRAP
      other = (series.total - sum_before(series, begun_by(series, now - other_end))) % WRAP
      if used > 0 and used + cost >= limit and cost <= limit then
        start = leaves_with(series, first, before, max(1, used + cost - limit))
      end
    end
    fits = fits and used + cost <= limit
    facts = facts .. pack(form.fact, used, other, start)
  end
  series = series
    or { form = form, text = '', size = form.head_size, life = life, latest = 0, base = 0, count = 0, total = 0 }
  series.now, series.edge, series.keep = now, edge, keep
  rule.state = series
  return fits, facts
end

-- Writes it anew: the buckets from number `cut` on, before number `kept`, and one more.
local function write_series(rule, cut, kept, entry)
  local series, form = rule.state, rule.state.form
  local from, to = form.head_size + form.size * cut, form.head_size + form.size * kept
  local buckets = ''
  if to > from then
    buckets = series.size < AT_ONCE and sub(series.text, from + 1, to) or call('GETRANGE', rule.key, from, to - 1)
  end
  local head = pack(form.head, series.life, series.now, sum_before(series, cut))
  call('SET', rule.key, head .. buckets .. entry, 'PX', rule.ttl)
end

local function charge_tiered(rule)
  local series = rule.state
  local form, now = series.form, series.now
  local start = now - now % series.edge
  local entry = pack(form.bucket, start, (series.total + cost) % WRAP)
  local last = series.count > 0 and bucket(series, series.count - 1) or -1
  local kept = series.count - (last == start and 1 or 0)
  local gone = now - series.keep
  local cut = 0
  -- When half of it can no longer count, that half is dropped.
  if kept > 0 and bucket(series, floor(kept / 2)) <= gone then
    cut = min(kept, begun_by(series, gone))
  end
  if series.size < AT_ONCE or cut > 0 or series.shortened then
    write_series(rule, cut, kept, entry)
  else
    call('SETRANGE', rule.key, 8, pack(form.latest, now))
    call('SETRANGE', rule.key, form.head_size + form.size * kept, entry)
    call('PEXPIRE', rule.key, rule.ttl)
  end
  return series.life, start
end

local function shorten_tiered(rule)
  if rule.state.count == 0 then
    call('DEL', rule.key)
  else
    rule.state.now = rule.state.latest
    write_series(rule, 0, rule.state.count, '')
  end
end

SHORTEN[TIERED], SHORTEN[FINE] = shorten_tiered, shorten_tiered
WEIGH[TIERED], WEIGH[FINE] = weigh_tiered, weigh_tiered
CHARGE[TIERED], CHARGE[FINE] = charge_tiered, charge_tiered
