-- How keys are kept, and what all scripts begin with. All numbers are integers below 2^53, which a double counts exactly.
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
--               then of each further rate its drops and its flow; then of each open reservation its handle I4, the
--               microsecond at which it lapses i8, and for each rate its claim i8
--
-- What Redis runs is this file, one for each kind of rule that is asked about, and `decide` or `settle`: each function
-- that is made takes the server time, for every decision.
local spread = unpack
local pack, unpack = struct.pack, struct.unpack
local floor, min, max = math.floor, math.min, math.max
local sub, concat = string.sub, table.concat
local call = redis.call

local TIERED, WINDOWS, COUNTER, LIST, TOKENS, FINE = 1, 2, 3, 4, 5, 6
local WRAP = 4294967296

-- What is asked: `decide` and `settle` set it. plan: the rules as `redis_scripts` encodes them; position: in the plan.
-- held: the key of the reservation, if it is one.
local at_us, second, cost, life, lasts_us, plan, position, caller, held
-- WEIGH returns, by kind, whether a rule lets the hit pass, and the facts about it, packed; nothing is written there.
-- CHARGE counts it and returns, at least if it is held, the life of the key and the handle by which it can be taken back;
-- rule.more has the numbers that this takes besides.
-- SHORTEN forgets what lies in the future, where a hit is refused.
local WEIGH, CHARGE, SHORTEN, NONE = {}, {}, {}, {}

-- As `moment` in Python: what a clock has counted by the end of the next second counts already, and nothing later.
local last_us
local function moment(counted_us)
  return counted_us > at_us and counted_us <= last_us and counted_us or at_us
end

-- Whole division: a >= 0, b > 0. `%` is exact for such numbers below 2^53, and then `/` is.
local function div(a, b)
  return (a - a % b) / b
end

local function server_us()
  local time = call('TIME')
  return time[1] * 1000000 + time[2]
end
