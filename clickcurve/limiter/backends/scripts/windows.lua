
-- --- windows of the clock ---------------------------------------------------------------------------------------------
WEIGH[WINDOWS] = function(rule)
  local rates
  rates, position = unpack('>B', plan, position)
  local text = call('GET', rule.key) or pack('>i8', life) .. string.rep('\0', 8 * rates)
  local fits, at, parts = true, 9, { sub(text, 1, 8) }
  -- For a refund: a second that lies in all of these windows, and in no others; and how wide they are.
  rule.handle, rule.more = second, held and {}
  for n = 1, rates do
    local limit, width, stop, count
    limit, width, position = unpack('>I4I4', plan, position)
    stop, count, at = unpack('>I4I4', text, at)
    if second >= stop then
      stop, count = second - second % width + width, 0
    end
    fits = fits and count + cost <= limit
    parts[n + 1] = pack('>I4I4', stop, count + cost)
    if held then
      rule.handle, rule.more[n] = max(rule.handle, stop - width), width
    end
  end
  rule.parts = parts
  return fits, sub(text, 9)
end

CHARGE[WINDOWS] = function(rule)
  call('SET', rule.key, concat(rule.parts), 'PX', rule.ttl)
  return held and unpack('>i8', rule.parts[1]), rule.handle
end
