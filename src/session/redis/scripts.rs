//! The scripts that the server runs, each atomically.
//!
//! `KEYS`: the log, the lease, the hash of all sessions (with the lease that last wrote each), the
//! damaged parts, the version. `ARGV` begins with the session id, the lease and its duration in
//! milliseconds. Every script may be repeated after a lost answer.

/// A piece of the log, the size of the log, and whether it should be there. `ARGV[2]` and
/// `ARGV[3]`: the offsets of the first and the last byte.
pub(super) const READ: &str = "
return {redis.call('getrange', KEYS[1], ARGV[2], ARGV[3]), redis.call('strlen', KEYS[1]),
    redis.call('hexists', KEYS[3], ARGV[1])}";

/// The last bytes of the log, its size, and whether it should be there. `ARGV[2]`: how many bytes.
pub(super) const TAIL: &str = "
return {redis.call('getrange', KEYS[1], '-' .. ARGV[2], -1), redis.call('strlen', KEYS[1]),
    redis.call('hexists', KEYS[3], ARGV[1])}";

/// The prefix of scripts that need a session no other store has leased. `ARGV[4]`: what the leases
/// of this store begin with.
pub(super) const CHECK_FREE: &str = "
local held = redis.call('get', KEYS[2])
if held and string.sub(held, 1, #ARGV[4]) ~= ARGV[4] then return 0 end
";

pub(super) const CLAIM: &str = "
redis.call('set', KEYS[2], ARGV[2], 'px', ARGV[3])
if redis.call('hexists', KEYS[3], ARGV[1]) == 1 then
    redis.call('hset', KEYS[3], ARGV[1], ARGV[2])
end
return 1";

/// Returns 1 if another store has a lease. `ARGV[2]`: the prefix of the leases of this store.
pub(super) const CLAIMED: &str = "
local held = redis.call('get', KEYS[2])
if held and string.sub(held, 1, #ARGV[2]) ~= ARGV[2] then return 1 end
return 0";

/// The prefix of scripts that only the holder may run, or the last holder when there is none.
pub(super) const CHECK_HELD: &str = "
local held = redis.call('get', KEYS[2])
if held and held ~= ARGV[2] then return 0 end
local last = redis.call('hget', KEYS[3], ARGV[1])
if last and last ~= ARGV[2] then return 0 end
";

/// A server without memory refuses to set what it lets last longer.
pub(super) const RENEW: &str = "
if not held or redis.call('pexpire', KEYS[2], ARGV[3]) == 0 then
    redis.call('set', KEYS[2], ARGV[2], 'px', ARGV[3])
end
return 1";

pub(super) const RELEASE: &str = "
if redis.call('get', KEYS[2]) == ARGV[2] then redis.call('del', KEYS[2]) end
return 1";

/// `ARGV[4]`: where the log ends, `ARGV[5]`: what to add.
pub(super) const APPEND: &str = "
local size, at = redis.call('strlen', KEYS[1]), tonumber(ARGV[4])
if size == at then
    redis.call('append', KEYS[1], ARGV[5])
elseif size ~= at + #ARGV[5] or redis.call('getrange', KEYS[1], at, -1) ~= ARGV[5] then
    return 0
end
redis.call('hset', KEYS[3], ARGV[1], ARGV[2])
redis.call('set', KEYS[2], ARGV[2], 'px', ARGV[3])
return 1";

/// The prefix of scripts that may find everything done. A wait for the disk is a wait for the last
/// write of a connection: this one changes nothing, and needs no memory.
pub(super) const DEFINE_TOUCH: &str = "
local function touch()
    redis.call('pexpire', KEYS[5], 60000)
    redis.call('persist', KEYS[5])
end
";

/// `ARGV[4]`: where the log ends, `ARGV[5]`: where to cut it or -1; then what to put aside.
pub(super) const HEAL: &str = "
local size, cut = redis.call('strlen', KEYS[1]), tonumber(ARGV[5])
if size ~= tonumber(ARGV[4]) then
    if size ~= cut then return 0 end
    touch()
    return 1
end
local known = {}
for _, kept in ipairs(redis.call('lrange', KEYS[4], 0, -1)) do known[kept] = true end
for number = 6, #ARGV do
    if not known[ARGV[number]] then redis.call('rpush', KEYS[4], ARGV[number]) end
end
if cut == 0 then
    redis.call('del', KEYS[1])
    redis.call('hdel', KEYS[3], ARGV[1])
    return 1
elseif cut > 0 then
    redis.call('set', KEYS[1], redis.call('getrange', KEYS[1], 0, cut - 1))
end
redis.call('hset', KEYS[3], ARGV[1], ARGV[2])
return 1";

/// `ARGV[5]`: how long the log must be, if there is one, or -1.
pub(super) const REMOVE: &str = "
local size, wanted = redis.call('strlen', KEYS[1]), tonumber(ARGV[5])
if size > 0 and wanted >= 0 and size ~= wanted then return 2 end
redis.call('del', KEYS[1], KEYS[2], KEYS[4])
redis.call('hdel', KEYS[3], ARGV[1])
touch()
return 1";
