//! Short names for places, without what is secret in them.

/// A name for the server and database of a URL as its user sees it. Password and options of the
/// connection make no other.
pub(crate) fn id_of_server(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let before_query = rest.split('?').next().unwrap_or(rest);

    // A password may have any of these characters in it.
    let (who, place) = match before_query.rfind('@').or(rest.find('@')) {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => ("", rest),
    };

    let user = who.split(':').next().unwrap_or(who);
    let (place, query) = place.split_once('?').unwrap_or((place, ""));
    let names = [
        "user", "host", "hostaddr", "port", "dbname", "db", "options",
    ];
    let is_place = |pair: &&str| names.contains(&pair.split('=').next().unwrap_or(pair));
    let query: Vec<_> = query.split('&').filter(is_place).collect();
    id_of(format!("{user}@{place}?{}", query.join("&")).as_bytes())
}

/// A short name for a place: its FNV-1a hash, the same in every build, for what is kept under it
/// outlives the program.
pub(crate) fn id_of(place: &[u8]) -> String {
    let hash = place.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
