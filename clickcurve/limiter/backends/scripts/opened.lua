
-- --- windows that a hit opens -----------------------------------------------------------------------------------------
local COUNTER_FORMAT = '>i8i8I4'

local function weigh_opened(rule)
  local limit, width
  limit, width, position = unpack('>I4I4', plan, position)
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
  local now = moment(found and found[2] or at_us)
  local state = { life = life, opened = now, count = 0 }
  if found and found[2] <= now and now < found[2] + width * 1000000 then
    state.life, state.opened, state.count = found[1], found[2], found[3]
  end
  rule.state = state
  return state.count + cost <= limit, pack('>i8i8', state.opened, state.count)
end

WEIGH[COUNTER], WEIGH[LIST] = weigh_opened, weigh_opened

CHARGE[COUNTER] = function(rule)
  local state = rule.state
  call('SET', rule.key, pack(COUNTER_FORMAT, state.life, state.opened, state.count + cost), 'PX', rule.ttl)
  return state.life, state.opened
end

CHARGE[LIST] = function(rule)
  local state = rule.state
  if state.count == 0 then
    call('DEL', rule.key)
    call('RPUSH', rule.key, pack('>i8i8', state.life, state.opened))
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
  return state.life, state.opened
end
