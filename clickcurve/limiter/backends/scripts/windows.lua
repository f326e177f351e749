
-- --- windows of the clock ---------------------------------------------------------------------------------------------
WEIGH[WINDOWS] = function(rule, rates)
  local text = call('GET', rule.key) or pack('>i8', life) .. string.rep('\0', 8 * rates)
  local fits, at, charged = true, 9, sub(text, 1, 8)
  if held then
    rule.handle, rule.more = second, {}
  end
  for n = 1, rates do
    local limit, width, stop, count
    limit, width, position = unpack('>I4I4', plan, position)
    stop, count, at = unpack('>I4I4', text, at)
    if second >= stop or second < stop - width - 1 then
      stop, count = second - second % width + width, 0
    end
    count = count + cost
    fits = fits and count <= limit
    charged = charged .. pack('>I4I4', stop, count)
    if held then
      -- In the end a second that lies in all of these windows, and in no others.
      rule.handle, rule.more[n] = max(rule.handle, stop - width), width
    end
  end
  rule.state = charged
  return fits, sub(text, 9)
end

CHARGE[WINDOWS] = function(rule)
  call('SET', rule.key, rule.state, 'PX', rule.ttl)
  return held and unpack('>i8', rule.state), rule.handle
end
