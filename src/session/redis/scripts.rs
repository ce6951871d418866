//! The scripts that the server runs, each atomically.
//!
//! `KEYS`: the log, the lease, the hash of all sessions (with the lease that last wrote each), the
//! list of the damaged parts, the version, the set of the digests of the damaged parts. `ARGV`
//! begins with the session id, the lease and its duration in milliseconds. Every script may be
//! repeated after a lost reply.

/// Returns a piece of the log, the size of the log, and 1 if the session exists. `ARGV[2]` and
/// `ARGV[3]`: the offsets of the first and the last byte.
pub(super) const READ: &str = "
return {redis.call('getrange', KEYS[1], ARGV[2], ARGV[3]), redis.call('strlen', KEYS[1]),
    redis.call('hexists', KEYS[3], ARGV[1])}";

/// Returns the last bytes of the log, its size, and 1 if the session exists. `ARGV[2]`: the number
/// of bytes.
pub(super) const TAIL: &str = "
return {redis.call('getrange', KEYS[1], '-' .. ARGV[2], -1), redis.call('strlen', KEYS[1]),
    redis.call('hexists', KEYS[3], ARGV[1])}";

/// The prefix of scripts that need a session which no other store has leased. `ARGV[4]`: the prefix
/// of this store's leases.
pub(super) const CHECK_FREE: &str = "
local held = redis.call('get', KEYS[2])
if held and string.sub(held, 1, #ARGV[4]) ~= ARGV[4] then return 0 end
";

/// Takes the lease.
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

/// The prefix of scripts that only the holder of the lease may run, or the last holder if the lease
/// has expired.
pub(super) const CHECK_HELD: &str = "
local held = redis.call('get', KEYS[2])
if held and held ~= ARGV[2] then return 0 end
local last = redis.call('hget', KEYS[3], ARGV[1])
if last and last ~= ARGV[2] then return 0 end
";

/// Extends a lease. It is set only if it has expired, because a server without free memory extends
/// keys but does not set them.
pub(super) const RENEW: &str = "
if not held or redis.call('pexpire', KEYS[2], ARGV[3]) == 0 then
    redis.call('set', KEYS[2], ARGV[2], 'px', ARGV[3])
end
return 1";

/// Releases the lease.
pub(super) const RELEASE: &str = "
if redis.call('get', KEYS[2]) == ARGV[2] then redis.call('del', KEYS[2]) end
return 1";

/// Appends to the log. `ARGV[4]`: the size of the log, `ARGV[5]`: the bytes to append.
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

/// The prefix of scripts that may be repeated after they succeeded. Waiting for the disk needs a
/// write on the same connection: `touch` writes without a change, and without memory.
pub(super) const DEFINE_TOUCH: &str = "
local function touch()
    redis.call('pexpire', KEYS[5], 60000)
    redis.call('persist', KEYS[5])
end
";

/// Repairs the log. `ARGV[4]`: its size, `ARGV[5]`: the size to truncate it to, or -1; then the
/// damaged parts to set aside.
///
/// The digests identify the parts in the list, so that a script does not read the list. They are
/// computed again if they are not those of the list: an earlier version of the program changes the
/// list alone.
pub(super) const REPAIR: &str = "
local size, cut = redis.call('strlen', KEYS[1]), tonumber(ARGV[5])
if size ~= tonumber(ARGV[4]) then
    if size ~= cut then return 0 end
    touch()
    return 1
end
local count = redis.call('llen', KEYS[4])
local first = redis.call('lindex', KEYS[4], 0)
if redis.call('scard', KEYS[6]) ~= count
    or first and redis.call('sismember', KEYS[6], redis.sha1hex(first)) == 0 then
    redis.call('del', KEYS[6])
    for start = 0, count - 1, 8 do
        for _, part in ipairs(redis.call('lrange', KEYS[4], start, start + 7)) do
            redis.call('sadd', KEYS[6], redis.sha1hex(part))
        end
    end
end
for number = 6, #ARGV do
    local digest = redis.sha1hex(ARGV[number])
    if redis.call('sismember', KEYS[6], digest) == 0 then
        redis.call('rpush', KEYS[4], ARGV[number])
        redis.call('sadd', KEYS[6], digest)
    end
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

/// Removes the session. `ARGV[5]`: the size that a log must have, or -1.
pub(super) const REMOVE: &str = "
local size, wanted = redis.call('strlen', KEYS[1]), tonumber(ARGV[5])
if size > 0 and wanted >= 0 and size ~= wanted then return 2 end
redis.call('del', KEYS[1], KEYS[2], KEYS[4], KEYS[6])
redis.call('hdel', KEYS[3], ARGV[1])
touch()
return 1";
