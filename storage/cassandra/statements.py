"""Every statement that the Cassandra store uses, by table. The module schema describes the tables.

Stamps of rows and of due entries are pinned (`epoch << 32 | k`), so that a repeat changes nothing and a late write
loses, and so are those of frames, fences and beats. All other writes take the cluster's clock: they write the same
again, or are conditional.
"""

from __future__ import annotations

from storage.cassandra.cql import Statement, StatementKind

READ, WRITE = StatementKind.READ, StatementKind.WRITE
CONDITION, SERIAL_READ = StatementKind.CONDITION, StatementKind.SERIAL_READ

_COUNTS, _BREAKDOWN = "data, erased_at", "by_open, by_closed, erased_at"
_BOTH = f"data, {_BREAKDOWN}"
_OWN = "WHERE short_key = ? AND owner IN (0, ?)"
_FROM_ON = "WHERE token(short_key) >= token(?)"
_RECORD = "owner, epoch, holder, journal, place, state, begun, begun_at"
# What a journal in the store records with its flush. A record of an owner without one has nothing there.
_JOURNAL = f"{_RECORD}, previous, fold_day, frames, done"
_IF_HELD = "WHERE owner = ? IF epoch = ? AND holder = ? AND state = 'open'"

# --- rows -----------------------------------------------------------------------------------------------------------
# owner 0 is the erasure of the link, so that one read of one partition returns both.
LINK = Statement("LINK", f"SELECT owner, {_COUNTS} FROM rows WHERE short_key = ?", READ, key=0)
LOAD_OWN = Statement("LOAD_OWN", f"SELECT owner, {_COUNTS} FROM rows {_OWN}", READ, key=0, of_flush=True)
# A breakdown has two cells beside that of its counts. Whatever a flush brings of a link is one write of one partition.
LINK_BY = Statement("LINK_BY", f"SELECT owner, {_BREAKDOWN} FROM rows WHERE short_key = ?", READ, key=0)
LOAD_OWN_BY = Statement("LOAD_OWN_BY", f"SELECT owner, {_BOTH} FROM rows {_OWN}", READ, key=0, of_flush=True)


def _save(name: str, *columns: str) -> Statement:
    values = ", ".join(f"{column} = ?" for column in columns)
    text = f"UPDATE rows USING TIMESTAMP ? SET {values} WHERE short_key = ? AND owner = ?"
    return Statement(name, text, WRITE, key=1 + len(columns), of_flush=True)


SAVE = _save("SAVE", "data")
SAVE_OPEN = _save("SAVE_OPEN", "data", "by_open")
SAVE_BOTH = _save("SAVE_BOTH", "data", "by_open", "by_closed")
SAVE_BY = _save("SAVE_BY", "by_open", "by_closed")
ERASE = Statement("ERASE", "UPDATE rows USING TIMESTAMP ? SET erased_at = ? WHERE short_key = ? AND owner = 0", WRITE)
KEYS = Statement("KEYS", "SELECT DISTINCT short_key FROM rows", READ)
_WALK, _WALK_BY = (f"SELECT token(short_key), short_key, owner, {some} FROM rows" for some in (_COUNTS, _BOTH))
WALK_FIRST = Statement("WALK_FIRST", _WALK, READ)
WALK_FROM = Statement("WALK_FROM", f"{_WALK} {_FROM_ON}", READ)
WALK_BY_FIRST = Statement("WALK_BY_FIRST", _WALK_BY, READ)
WALK_BY_FROM = Statement("WALK_BY_FROM", f"{_WALK_BY} {_FROM_ON}", READ)
WALK_BY_ONE = Statement("WALK_BY_ONE", f"SELECT owner, {_BOTH} FROM rows WHERE short_key = ?", READ)

# --- owners ---------------------------------------------------------------------------------------------------------
OWNER_NUMBERS = Statement("OWNER_NUMBERS", "SELECT owner FROM owners", READ)
OWNER = Statement("OWNER", f"SELECT {_RECORD} FROM owners WHERE owner = ?", SERIAL_READ)
CREATE_OWNER = Statement(
    "CREATE_OWNER", f"INSERT INTO owners ({_RECORD}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS", CONDITION
)
CLAIM = Statement(
    "CLAIM",
    "UPDATE owners SET epoch = ?, holder = ?, journal = ?, place = ?, state = ?, begun = ?, begun_at = ?"
    " WHERE owner = ? IF epoch = ? AND holder = ? AND state = ? AND begun = ?",
    CONDITION,
)
BEGIN = Statement("BEGIN", f"UPDATE owners SET begun = ?, begun_at = ? {_IF_HELD} AND begun = ?", CONDITION)
CLOSE = Statement("CLOSE", f"UPDATE owners SET state = 'closed' {_IF_HELD}", CONDITION)

JOURNAL = Statement("JOURNAL", f"SELECT {_JOURNAL} FROM owners WHERE owner = ?", SERIAL_READ)
JOURNALS = Statement("JOURNALS", f"SELECT {_JOURNAL} FROM owners", READ)
BEGIN_NAMING = Statement(
    "BEGIN_NAMING",
    f"UPDATE owners SET begun = ?, begun_at = ?, previous = ?, fold_day = ?, frames = ? {_IF_HELD} AND begun = ?",
    CONDITION,
)
DONE = Statement("DONE", f"UPDATE owners SET done = ? {_IF_HELD} AND begun = ?", CONDITION)

# --- frames, fences, beats ------------------------------------------------------------------------------------------
# A frame has stamp 1, and the deletion of its piece 2: so a repeat is the same cell, and a deletion wins for ever.
APPEND = Statement(
    "APPEND",
    "INSERT INTO frames (owner, after, piece, number, part, parts, data) VALUES (?, ?, ?, ?, ?, ?, ?)"
    " USING TIMESTAMP 1",
    WRITE,
)
FRAMES = Statement(
    "FRAMES", "SELECT number, part, parts, data FROM frames WHERE owner = ? AND after = ? AND piece = ?", READ
)
A_FRAME = Statement("A_FRAME", "SELECT number FROM frames WHERE owner = ? AND after = ? AND piece = ? LIMIT 1", READ)
DROP_PIECE = Statement(
    "DROP_PIECE", "DELETE FROM frames USING TIMESTAMP 2 WHERE owner = ? AND after = ? AND piece = ?", WRITE
)
# A fence has its epoch for a stamp, and a beat its count: so one that comes late loses, whatever clocks say.
FENCE = Statement("FENCE", "SELECT epoch FROM fences WHERE owner = ?", READ)
RAISE_FENCE = Statement("RAISE_FENCE", "UPDATE fences USING TIMESTAMP ? SET epoch = ? WHERE owner = ?", WRITE)
BEAT = Statement(
    "BEAT", "INSERT INTO beats (shard, holder, beat) VALUES (0, ?, ?) USING TIMESTAMP ? AND TTL 86400", WRITE
)
BEATS = Statement("BEATS", "SELECT holder, beat FROM beats WHERE shard = 0", READ)

# --- ids ------------------------------------------------------------------------------------------------------------
# claims: a list of (owner, flush, accepted_us).
CLAIM_ID = Statement("CLAIM_ID", "INSERT INTO ids (id, claims) VALUES (?, ?) IF NOT EXISTS USING TTL ?", CONDITION)
CLAIM_ID_AGAIN = Statement(
    "CLAIM_ID_AGAIN", "UPDATE ids USING TTL ? SET claims = ? WHERE id = ? IF claims = ?", CONDITION
)
CLAIMS = Statement("CLAIMS", "SELECT claims FROM ids WHERE id = ?", SERIAL_READ)
CLAIMED = Statement("CLAIMED", "SELECT claims FROM ids WHERE id = ?", READ, key=0)
IDS_FIRST = Statement("IDS_FIRST", "SELECT token(id), id, claims FROM ids", READ)
IDS_FROM = Statement("IDS_FROM", "SELECT token(id), id, claims FROM ids WHERE token(id) >= token(?)", READ)

# --- sources --------------------------------------------------------------------------------------------------------
SOURCES = Statement("SOURCES", "SELECT source, owner, position, tail, epoch FROM sources", READ)
SOURCE = Statement("SOURCE", "SELECT owner, position, tail, epoch FROM sources WHERE source = ?", SERIAL_READ)
CREATE_SOURCE = Statement(
    "CREATE_SOURCE",
    "INSERT INTO sources (source, owner, position, tail, epoch) VALUES (?, ?, ?, ?, ?) IF NOT EXISTS",
    CONDITION,
)
MOVE_SOURCE = Statement(
    "MOVE_SOURCE",
    "UPDATE sources SET owner = ?, position = ?, tail = ?, epoch = ?"
    " WHERE source = ? IF owner = ? AND position = ? AND tail = ? AND epoch = ?",
    CONDITION,
)

# --- due ------------------------------------------------------------------------------------------------------------
ADD_DUE = Statement(
    "ADD_DUE", "INSERT INTO due (owner, day, shard, short_key) VALUES (?, ?, ?, ?) USING TIMESTAMP ?", WRITE, 3
)
ADD_DUE_DAY = Statement("ADD_DUE_DAY", "INSERT INTO due_days (owner, day) VALUES (?, ?) USING TIMESTAMP ?", WRITE)
DUE_DAYS = Statement("DUE_DAYS", "SELECT day FROM due_days WHERE owner = ? AND day <= ?", READ)
DUE = Statement(
    "DUE",
    "SELECT short_key FROM due WHERE owner = ? AND day = ? AND shard = ? AND short_key > ? LIMIT ?",
    READ,
)
DROP_DUE = Statement("DROP_DUE", "DELETE FROM due USING TIMESTAMP ? WHERE owner = ? AND day = ? AND shard = ?", WRITE)
DROP_DUE_DAY = Statement("DROP_DUE_DAY", "DELETE FROM due_days USING TIMESTAMP ? WHERE owner = ? AND day = ?", WRITE)

# --- touched --------------------------------------------------------------------------------------------------------
ADD_TOUCHED = Statement("ADD_TOUCHED", "INSERT INTO touched (day, shard, short_key) VALUES (?, ?, ?)", WRITE, 2)
TOUCHED = Statement(
    "TOUCHED", "SELECT short_key FROM touched WHERE day = ? AND shard = ? AND short_key > ? LIMIT ?", READ
)

# --- erasures -------------------------------------------------------------------------------------------------------
ADD_ERASURE = Statement("ADD_ERASURE", "INSERT INTO erasures (hour, logged_us, short_key) VALUES (?, ?, ?)", WRITE)
ERASURES = Statement("ERASURES", "SELECT short_key FROM erasures WHERE hour = ? AND logged_us >= ?", READ)

# --- meta and the cluster's clock -----------------------------------------------------------------------------------
META = Statement("META", "SELECT name, value FROM meta", READ)
NOTE = Statement("NOTE", "INSERT INTO meta (name, value) VALUES (?, ?) IF NOT EXISTS", CONDITION)
NOTE_FOR = Statement("NOTE_FOR", "INSERT INTO meta (name, value) VALUES (?, ?) IF NOT EXISTS USING TTL ?", CONDITION)
NOTED = Statement("NOTED", "SELECT value FROM meta WHERE name = ?", SERIAL_READ)
CHANGE_NOTE = Statement("CHANGE_NOTE", "UPDATE meta SET value = ? WHERE name = ? IF value = ?", CONDITION)
DROP_NOTE = Statement("DROP_NOTE", "DELETE FROM meta WHERE name = ? IF EXISTS", CONDITION)
RAISE_VERSION = Statement("RAISE_VERSION", "UPDATE meta SET value = ? WHERE name = 'version' IF value = ?", CONDITION)
NOW_MS = Statement("NOW_MS", "SELECT toUnixTimestamp(now()) FROM system.local", READ)

STATEMENTS = {each.name: each for each in list(globals().values()) if isinstance(each, Statement)}
# Those that readers on an event loop ask: these must never wait until one is prepared.
ASKED = (LINK, LINK_BY, CLAIMED)
# The same of accepting, where journals lie in the store.
ASKED_BY_JOURNALS = (APPEND, FENCE)
